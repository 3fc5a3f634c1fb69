//! (D1, L5, L1) One writer, also when two things happen at the same moment: whatever lands while a sub-session is in the middle
//! of a write, the write has its outcome before the barrier is off.

use std::{
    fs,
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tests::{Answer, CallError, CrashPoints, Rig, Victim, key, processes::Process, until};

const PATIENCE: Duration = Duration::from_secs(60);

/// A sub-session that is held in the middle of an edit: recorded, and not done.
struct Held {
    rig: Rig,
    points: CrashPoints,
    id: Value,
}

impl Held {
    fn new(more: &[(&str, &str)]) -> Self {
        let points = CrashPoints::default();
        let (name, value) = points.setting();
        let mut settings = vec![(name, value.as_str())];
        settings.extend(more);
        let mut rig = Rig::with(&[], &settings);
        let file = rig.file("a.txt");
        rig.model.answer(Answer::Calls(vec![
            ("Read".into(), json!({"file_path": file})),
            ("Edit".into(), json!({"file_path": file, "old_string": "one", "new_string": "two"})),
        ]));
        points.hold(("worker-after-prepared-acknowledged", 1));
        let id = rig.delegate("sonnet")["id"].clone();
        points.wait_for_held();
        Self { rig, points, id }
    }

    fn content(&self) -> String {
        fs::read_to_string(self.rig.file("a.txt")).unwrap()
    }

    /// What the owner sees: it still has the right to write.
    fn is_active(&self) {
        let shown = self.rig.gateway.ctl(&["show", &self.rig.session.id]);
        assert_eq!(shown.json["active_deepseek_subsession_id"], self.id, "{shown:?}");
        assert_eq!(self.content(), "one\n");
    }

    /// Its tree is gone and it is still active, because its edit has no outcome; then the edit goes on.
    fn let_it_end(&self) {
        self.points.wait_for_hit("worker-subsession-tree-gone");
        self.is_active();
        self.points.disarm();
    }

    /// How it ended, by the ledger: the edit has its outcome before the end, and after the end there is nothing.
    fn events(&self) -> Vec<String> {
        let ledger = self.rig.gateway.ctl(&["ledger", &self.rig.session.id]);
        let records = ledger.json["records"].as_array().unwrap().clone();
        let mut names = Vec::new();
        for record in records {
            let event = find(&record, "event");
            let Some(event) = event.filter(|_| record.to_string().contains(self.id.as_str().unwrap())) else {
                continue;
            };
            names.extend(event.as_object().unwrap().keys().cloned());
        }
        names.into_iter().map(|name| name.to_lowercase()).collect()
    }

    fn summary(&mut self) -> Value {
        self.rig.session.view["deepseek_subsessions"][0].clone()
    }
}

fn find<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let fields = value.as_object()?;
    fields.get(name).or_else(|| fields.values().find_map(|value| find(value, name)))
}

/// The whole life of a sub-session whose edit was done.
const DONE: [&str; 6] = ["called", "receipt", "called", "prepared", "receipt", "ended"];

#[test]
fn a_stop_of_the_task_in_the_middle_of_its_edit_waits_for_the_edit() {
    let mut held = Held::new(&[]);
    let turn = held.rig.session.turn()["turn_id"].clone();
    let call = json!({"name": "deepseek_subagent_stop", "input": {"id": held.id}});
    let reply = held.rig.session.arguments(&json!({
        "turn_id": turn, "reply_id": key(), "tool_calls": [call], "wait_seconds": 50,
    }));
    let client = held.rig.gateway.client.clone();
    let stopping = thread::spawn(move || client.call("native_session_reply_and_wait", &reply));
    held.let_it_end();
    held.rig.session.view = stopping.join().unwrap().unwrap();
    let told = held.rig.session.turn()["tool_results"][0]["content"].as_str().unwrap().to_owned();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["state"], held.content().as_str()), (&json!("stopped"), "two\n"), "{told}");
    assert_eq!(told["files_changed"], held.summary()["files_changed"]);
    assert_eq!(told["files_changed"][0]["path"], json!(held.rig.file("a.txt")));
    assert_eq!(held.events(), DONE);
    held.rig.session.stop();
    held.rig.gateway.wait_for_no_runners();
}

#[test]
fn the_end_of_the_session_in_the_middle_of_its_edit_waits_for_the_edit() {
    for by_owner in [false, true] {
        let mut held = Held::new(&[]);
        thread::scope(|scope| {
            let (client, id) = (held.rig.gateway.client.clone(), held.rig.session.id.clone());
            let stop = held.rig.session.arguments(&json!({"request_id": key(), "reason": "now"}));
            let gateway = &held.rig.gateway;
            let stopping = scope.spawn(move || {
                if by_owner {
                    assert_eq!(gateway.ctl(&["stop", &id]).code, 0);
                } else {
                    client.call("native_session_stop", &stop).unwrap();
                }
            });
            held.let_it_end();
            stopping.join().unwrap();
        });
        held.rig.session.wait_for_status("stopped");
        let sub = held.summary();
        assert_eq!((&sub["state"], held.content().as_str()), (&json!("stopped"), "two\n"), "{sub}");
        assert!(sub["files_changed"][0]["sha256_after"].is_string(), "{sub}");
        assert_eq!(held.events(), DONE);
        held.rig.gateway.wait_for_no_runners();
    }
}

#[test]
fn the_end_of_the_lease_in_the_middle_of_its_edit_waits_for_the_edit() {
    let mut held = Held::new(&[("CLAUDE_TOOLS_LEASE_SECONDS", "12")]);
    held.let_it_end();
    held.rig.gateway.wait_for_no_runners();
    held.rig.session.recover(&key(), 20).unwrap();
    let sub = held.summary();
    assert_eq!((&sub["state"], held.content().as_str()), (&json!("stopped"), "two\n"), "{sub}");
    assert_eq!(held.events(), DONE);
    held.rig.session.stop();
}

#[test]
fn a_kill_in_the_middle_of_its_edit_leaves_the_edit_done_once_or_not_at_all() {
    for victim in Victim::ALL {
        let mut held = Held::new(&[]);
        let workers: Vec<_> = held.rig.gateway.runners().into_iter().filter(Process::is_worker).collect();
        if victim != Victim::Worker {
            held.rig.gateway.kill();
        }
        if victim != Victim::Supervisor {
            workers.iter().for_each(Process::kill);
        }
        if victim == Victim::Supervisor {
            // What is in the middle goes on, and waits with its outcome.
            held.points.disarm();
            held.rig.model.answer(Answer::Text("Done.".into()));
        }
        if victim != Victim::Worker {
            held.rig.gateway.start_again();
        }
        held.rig.session.recover(&key(), 20).unwrap();
        until("it is over", PATIENCE, || {
            held.rig.session.status(5)["active_deepseek_subsession_id"].is_null().then_some(())
        });
        let left: Vec<_> = held.rig.gateway.runners().into_iter().filter(|p| workers.contains(p)).collect();
        let sub = held.summary();
        if victim == Victim::Supervisor {
            assert_eq!(left, workers);
            assert_eq!((&sub["state"], held.content().as_str()), (&json!("finished"), "two\n"), "{sub}");
            assert_eq!(held.events(), DONE);
        } else {
            assert!(left.is_empty());
            assert_eq!((&sub["state"], held.content().as_str()), (&json!("lost"), "one\n"), "{sub}");
            assert_eq!(held.events(), ["called", "receipt", "called", "prepared", "resolved", "ended"]);
            assert_eq!(sub["files_changed"], json!([]));
        }
        let names = fs::read_dir(&held.rig.root).unwrap().count();
        assert_eq!(names, 2, "something is left beside the file");
        held.points.disarm();
        held.rig.session.stop();
        held.rig.gateway.wait_for_no_runners();
    }
}

#[test]
fn an_edit_that_never_ends_is_ended_and_told_as_what_it_is() {
    let mut held = Held::new(&[]);
    held.rig.session.stop();
    held.rig.session.wait_for_status("stopped");
    let sub = held.summary();
    assert_eq!((&sub["state"], held.content().as_str()), (&json!("lost"), "one\n"), "{sub}");
    assert_eq!(held.events(), ["called", "receipt", "called", "prepared", "resolved", "ended"]);
    assert!(held.rig.gateway.runners().is_empty(), "{:?}", held.rig.gateway.runners());
}

#[test]
fn of_a_start_and_a_write_at_the_same_moment_one_is_taken() {
    let mut rig = Rig::new(&[]);
    let file = rig.file("a.txt");
    let edit =
        json!({"name": "Edit", "input": {"file_path": file, "old_string": "one", "new_string": "two"}});
    let start = json!({"name": "deepseek_subagent_start", "input": {"task": "x", "model": "opus"}});
    // In one reply neither is.
    for calls in [json!([start, edit]), json!([edit, start]), json!([start, start])] {
        assert_eq!(rig.refused(&calls).code, "invalid_argument");
    }
    assert_eq!(rig.session.status(0)["deepseek_subsessions"], json!([]));
    for round in 0..4 {
        rig.session.act(&[("Read", json!({"file_path": file}))]);
        let turn = rig.session.turn()["turn_id"].clone();
        let together = Arc::new(Barrier::new(2));
        let write =
            json!({"name": "Write", "input": {"file_path": file, "content": format!("round {round}\n")}});
        let mut sent = Vec::new();
        for call in [&start, &write] {
            let reply = rig.session.arguments(&json!({
                "turn_id": turn, "reply_id": key(), "tool_calls": [call], "wait_seconds": 0,
            }));
            let (client, together) = (rig.gateway.client.clone(), Arc::clone(&together));
            sent.push(thread::spawn(move || {
                together.wait();
                client.call("native_session_reply_and_wait", &reply)
            }));
        }
        let [started, written]: [Result<Value, CallError>; 2] =
            sent.into_iter().map(|sent| sent.join().unwrap()).collect::<Vec<_>>().try_into().unwrap();
        let refused = match (&started, &written) {
            (Ok(_), Err(CallError::Tool(refused))) | (Err(CallError::Tool(refused)), Ok(_)) => refused,
            other => panic!("both or neither were taken: {other:?}"),
        };
        assert_eq!(refused.code, "turn_stale");
        rig.session.status(0);
        rig.session.turn();
        let listed = rig.session.view["active_deepseek_subsession_id"].clone();
        assert_eq!(listed.is_null(), started.is_err(), "{}", rig.session.view);
        let content = fs::read_to_string(&file).unwrap();
        assert_eq!(content == format!("round {round}\n"), written.is_ok(), "{content}");
        if !listed.is_null() {
            assert_eq!(rig.refused(&json!([edit])).code, "busy");
            assert_eq!(rig.refused(&json!([start])).code, "busy");
            rig.tool("deepseek_subagent_stop", json!({"id": listed}));
        }
    }
    rig.session.stop();
}

#[test]
fn the_same_start_twice_at_the_same_moment_begins_one() {
    let mut rig = Rig::new(&[]);
    let turn = rig.session.turn()["turn_id"].clone();
    let start = json!({"name": "deepseek_subagent_start", "input": {"task": "x", "model": "opus"}});
    let reply = rig.session.arguments(&json!({
        "turn_id": turn, "reply_id": key(), "tool_calls": [start], "wait_seconds": 20,
    }));
    let sent: Vec<_> = (0..4)
        .map(|_| {
            let (client, reply) = (rig.gateway.client.clone(), reply.clone());
            thread::spawn(move || client.call("native_session_reply_and_wait", &reply))
        })
        .collect();
    let views: Vec<_> = sent.into_iter().map(|sent| sent.join().unwrap().unwrap()).collect();
    assert_eq!(views.iter().filter(|view| view["replay"] == false).count(), 1);
    rig.session.status(0);
    rig.session.turn();
    assert_eq!(rig.session.view["deepseek_subsessions"].as_array().unwrap().len(), 1);
    rig.session.stop();
    rig.gateway.wait_for_no_runners();
}
