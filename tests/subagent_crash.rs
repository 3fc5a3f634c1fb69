//! (D1, T4, L2, L4) A sub-session happens once, whoever dies when: at every point from its start to its recorded end the worker,
//! the supervisor or both are killed, and what is told of it is what is there.
//!
//! Whoever comes to a point is stopped there, the victim is killed, the other one goes on. One gateway and one session serve
//! a whole column. `GATEWAY_MATRIX=all` takes every hit with every victim.

use std::{collections::HashSet, env, fs, path::PathBuf, thread, time::Duration};

use protocol::digest::Digest;
use serde_json::{Value, json};
use tests::{Answer, CallError, CrashPoints, Rig, Victim, key, leftovers::leftovers, processes, until};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// What is done while somebody dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// A task that edits a file and ends with an answer.
    Task,
    /// The stop of a task that works.
    Stop,
}

struct Column {
    rig: Rig,
    points: CrashPoints,
    act: Act,
    cells: usize,
    /// Sub-sessions of the cells before.
    known: HashSet<String>,
    /// Requests to the model in the cells before.
    asked: usize,
}

/// How a cell is about to begin.
struct Cell {
    file: PathBuf,
    reply: Value,
    /// The sub-session, where it is there already.
    id: Value,
}

impl Column {
    fn new(act: Act) -> Self {
        let points = CrashPoints::default();
        let (name, value) = points.setting();
        let rig = Rig::with(&[], &[(name, &value)]);
        Self { rig, points, act, cells: 0, known: HashSet::new(), asked: 0 }
    }

    /// A file of its own, the model's answers, and the reply that sets everything going.
    fn begin(&mut self) -> Cell {
        self.cells += 1;
        let file = self.rig.file(&format!("cell-{}.txt", self.cells));
        fs::write(&file, "one\n").unwrap();
        self.rig.model.forget_answers();
        self.asked = self.rig.model.asked().len();
        let mut id = Value::Null;
        let call = match self.act {
            Act::Task => {
                self.rig.model.answer(Answer::Calls(vec![
                    ("Read".into(), json!({"file_path": file})),
                    // Done twice it would show.
                    ("Edit".into(), json!({"file_path": file, "old_string": "one", "new_string": "one one"})),
                ]));
                self.rig.model.answer(Answer::Text("Done.".into()));
                json!({"name": "deepseek_subagent_start", "input": {"task": "Do it.", "model": "sonnet"}})
            }
            Act::Stop => {
                id = self.rig.delegate("sonnet")["id"].clone();
                until("it asks its model", PATIENCE, || {
                    (self.rig.model.asked().len() > self.asked).then_some(())
                });
                json!({"name": "deepseek_subagent_stop", "input": {"id": id}})
            }
        };
        let turn = self.rig.session.turn()["turn_id"].clone();
        let reply = json!({"turn_id": turn, "reply_id": key(), "wait_seconds": 20, "tool_calls": [call]});
        Cell { file, reply, id }
    }

    /// Every hit from the reply to the recorded end, without a crash.
    fn count(&mut self) -> Vec<(String, usize)> {
        let cell = self.begin();
        self.points.arm(None);
        self.rig.session.call("native_session_reply_and_wait", &cell.reply).unwrap();
        until("it has ended", PATIENCE, || self.has_ended().then_some(()));
        let hits = self.points.hits();
        self.points.disarm();
        assert!(hits.len() > 10, "the programs were built without their crash points: {hits:?}");
        self.settle(&cell, Victim::Supervisor);
        hits
    }

    fn has_ended(&self) -> bool {
        self.points.hits().iter().any(|(name, _)| name == "worker-subsession-end-recorded")
    }

    /// Kills at one hit and looks at what became of it.
    fn cell(&mut self, (point, hit): (&str, usize), victim: Victim) -> String {
        let cell = self.begin();
        let Self { rig, points, .. } = self;
        points.arm(Some((point, hit)));
        let (client, arguments) = (rig.gateway.client.clone(), rig.session.arguments(&cell.reply));
        let sent = thread::spawn(move || client.call("native_session_reply_and_wait", &arguments));
        let over = || {
            let ended = points.hits().iter().any(|(name, _)| name == "worker-subsession-end-recorded");
            ended && sent.is_finished()
        };
        let struck = points.strike(&mut rig.gateway, victim, over);
        // What it says is said again to whoever recovers.
        let _ = sent.join();
        if !rig.gateway.is_alive() {
            rig.gateway.restart();
        }
        until("a lease", PATIENCE, || match self.rig.session.recover(&key(), 20) {
            Ok(_) => Some(()),
            // One that is dying in this moment resets the connection.
            Err(CallError::Io(_)) => None,
            Err(other) => panic!("{other:?}"),
        });
        if struck && victim != Victim::Supervisor {
            until("the worker's end is noticed", PATIENCE, || {
                (self.rig.session.status(10)["runtime_attached"] == false).then_some(())
            });
        }
        let told = self.settle(&cell, victim);
        if struck { told } else { "not reached".to_owned() }
    }

    /// What a client does that lost its answer; then what is told has to be what is there.
    fn settle(&mut self, cell: &Cell, victim: Victim) -> String {
        until("the sub-session is over and the session waits", PATIENCE, || {
            let session = &mut self.rig.session;
            let turn = session.view["pending_turn"]["turn_id"].clone();
            if turn == cell.reply["turn_id"] && !turn.is_null() {
                // It was not recorded before.
                let _ = session.call("native_session_reply_and_wait", &cell.reply).map(drop);
                return None;
            }
            let active = !session.view["active_deepseek_subsession_id"].is_null();
            let rests = !turn.is_null() || session.text("status") == "idle";
            if active || !rests {
                session.status(3);
                return None;
            }
            Some(())
        });
        let view = self.rig.session.view.clone();
        // The barrier is off: nothing of it may be left.
        let folder = self.rig.gateway.state.join("sessions").join(&self.rig.session.id).join("subsessions");
        let left = processes::naming(folder.to_str().unwrap());
        assert!(left.is_empty(), "{left:?} outlived {view}");
        let lost = view["current_run"]["outcome"] == "lost";
        assert_eq!(lost, view["status"] == "idle", "{view}");
        assert!(!(lost && victim == Victim::Supervisor), "a worker was lost with its supervisor: {view}");
        let told = self.told_of(cell, &view);
        if lost {
            self.go_on(cell, &told);
        }
        let results = self.rig.session.act(&[("RunCommand", json!({"argv": ["true"]}))]);
        assert_eq!(results[0]["is_error"], false, "the barrier is still there: {results:?}");
        self.nothing_is_left();
        told
    }

    /// The state of this cell's sub-session, whose file has to be what its summary says.
    fn told_of(&mut self, cell: &Cell, view: &Value) -> String {
        let listed = view["deepseek_subsessions"].as_array().unwrap();
        let new: Vec<_> =
            listed.iter().filter(|sub| !self.known.contains(sub["id"].as_str().unwrap())).collect();
        let content = fs::read_to_string(&cell.file).unwrap();
        let asked = self.rig.model.asked().split_off(self.asked);
        let lengths: Vec<_> =
            asked.iter().map(|asked| asked.body["messages"].as_array().unwrap().len()).collect();
        assert!(lengths.windows(2).all(|two| two[0] < two[1]), "it was asked twice: {lengths:?}");
        let Some(sub) = new.last() else {
            assert_eq!((content.as_str(), asked.len()), ("one\n", 0), "it was never begun: {view}");
            return "never begun".to_owned();
        };
        assert_eq!(new.len(), 1, "it was begun twice: {view}");
        self.known.insert(sub["id"].as_str().unwrap().to_owned());
        let state = sub["state"].as_str().unwrap();
        assert!(sub["ended_at"].is_string(), "{sub}");
        match self.act {
            Act::Stop => {
                assert_eq!(sub["id"], cell.id);
                assert!(matches!(state, "stopped" | "lost"), "{sub}");
            }
            Act::Task => assert!(matches!(state, "finished" | "lost"), "{sub}"),
        }
        assert_eq!(sub["turns"].is_null(), state == "lost", "{sub}");
        let changed = sub["files_changed"].as_array().unwrap();
        let digest = |text: &str| json!(Digest::of(text.as_bytes()).to_string());
        match changed.first() {
            None => assert_eq!(content, "one\n", "{sub}"),
            Some(file) => {
                assert_eq!(content, "one one\n", "{sub}");
                assert_eq!((changed.len(), &file["path"]), (1, &json!(cell.file)));
                assert_eq!(file["sha256_before"], digest("one\n"));
                assert_eq!(file["sha256_after"], digest("one one\n"));
            }
        }
        if state == "finished" {
            assert_eq!((content.as_str(), &sub["text"]), ("one one\n", &json!("Done.")));
        }
        state.to_owned()
    }

    /// The run was lost: ChatGPT is told so, and of the delegation in it.
    fn go_on(&mut self, cell: &Cell, told: &str) {
        self.rig.session.go_on("again");
        let turn = self.rig.session.turn();
        let actions = turn["recovered_actions"].as_array().cloned().unwrap_or_default();
        let start = actions.iter().rfind(|action| action["tool"] == "deepseek_subagent_start");
        match (self.act, told, start) {
            (Act::Task, "never begun", start) => {
                let outcome = start.map_or("not_started", |start| start["outcome"].as_str().unwrap());
                assert!(matches!(outcome, "not_started" | "not_applied"), "{actions:?}");
            }
            (Act::Task, _, start) => assert_eq!(start.unwrap()["outcome"], "applied", "{actions:?}"),
            (Act::Stop, _, _) => {
                let shown = self.rig.tool("deepseek_subagent_get", json!({"id": cell.id}));
                assert_eq!(shown["state"], told, "{shown}");
            }
        }
    }

    fn nothing_is_left(&self) {
        let names = fs::read_dir(&self.rig.root).unwrap().flatten();
        let strays: Vec<_> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != ".git" && name != "a.txt" && !name.starts_with("cell-"))
            .collect();
        assert_eq!(strays, Vec::<String>::new());
    }

    /// The end of the column. What was told is told again by a new supervisor, from the journal alone.
    fn end(mut self) {
        let told = self.rig.session.status(0)["deepseek_subsessions"].clone();
        self.rig.session.stop();
        self.rig.gateway.wait_for_no_runners();
        self.rig.gateway.restart();
        let shown = self.rig.gateway.ctl(&["show", &self.rig.session.id]);
        assert_eq!(shown.json["deepseek_subsessions"], told, "{shown:?}");
        assert_eq!(shown.json["active_deepseek_subsession_id"], json!(null));
        let verified = self.rig.gateway.ctl(&["ledger", &self.rig.session.id, "--verify"]);
        assert_eq!(verified.code, 0, "{verified:?}");
        assert_eq!(leftovers(&self.rig.gateway, &self.rig.session.id), Vec::<PathBuf>::new());
    }
}

#[expect(clippy::print_stdout, reason = "the matrix is a table to be read")]
fn column(act: Act, chosen: &[&str]) {
    let mut column = Column::new(act);
    let hits = column.count();
    let all = env::var("GATEWAY_MATRIX").is_ok_and(|asked| asked == "all");
    let mut turn = 0;
    for (point, hit) in
        hits.iter().filter(|(point, hit)| all || (*hit == 1 && chosen.contains(&point.as_str())))
    {
        turn += 1;
        let victims = if all { &Victim::ALL[..] } else { &Victim::ALL[turn % 3..=turn % 3] };
        for victim in victims {
            let told = column.cell((point, *hit), *victim);
            println!("{act:?} {point}:{hit} {victim:?}: {told}");
        }
    }
    assert!(all || turn == chosen.len(), "points were not passed: {hits:?}");
    column.end();
}

#[test]
fn a_task_happens_once_whoever_dies_while_it_begins_or_ends() {
    column(
        Act::Task,
        &[
            "worker-subsession-recorded",
            "worker-subsession-started",
            "worker-subsession-asks",
            "worker-subsession-over",
            "worker-subsession-tree-gone",
            "worker-subsession-before-end",
            "worker-after-end-sent",
            "worker-subsession-end-recorded",
        ],
    );
}

#[test]
fn what_a_task_writes_is_written_once_whoever_dies() {
    column(
        Act::Task,
        &[
            "worker-after-called-sent",
            "worker-after-stage",
            "worker-after-prepared-sent",
            "worker-after-prepared-acknowledged",
            "worker-after-exchange",
            "worker-before-receipt",
            "worker-after-receipt-sent",
            "supervisor-after-append",
        ],
    );
}

#[test]
fn a_stop_is_a_stop_whoever_dies() {
    column(
        Act::Stop,
        &[
            "worker-subsession-stop-asked",
            "worker-subsession-tree-gone",
            "worker-after-end-sent",
            "worker-subsession-end-recorded",
        ],
    );
}
