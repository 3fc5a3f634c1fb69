//! One gateway and one session that a column of the matrix is run in, cell by cell, and what a client does after a crash.

use std::{fs, path::PathBuf, thread, time::Duration};

use serde_json::{Value, json};
use tests::{CallError, CrashPoints, Gateway, Session, Victim, key, leftovers::leftovers, until};

use super::scenario::{Act, Effect, Ground, Scenario, Tree, make_repository};

/// A recovered session is looked at this often before it counts as stuck.
const LOOKS: usize = 40;

/// Where the next process that has it dies.
const CRASH_POINT: &str = "CLAUDE_TOOLS_CRASH_POINT";

/// A gateway with one session.
pub(crate) struct Scene {
    pub(crate) gateway: Gateway,
    pub(crate) session: Session,
    points: CrashPoints,
    pub(crate) scenario: Scenario,
    root: PathBuf,
    cells: usize,
    /// Actions that were told of before this cell's.
    pub(crate) known: Vec<String>,
    /// Whether something had to be acknowledged.
    in_doubt: bool,
}

/// What one reply does without a crash.
pub(crate) struct Reference {
    pub(crate) before: Tree,
    pub(crate) after: Tree,
    /// Every hit from the reply to the next turn.
    pub(crate) hits: Vec<(String, usize)>,
}

impl Scene {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let points = CrashPoints::default();
        let (name, value) = points.setting();
        let gateway = Gateway::with(&[(name, &value)]);
        let source = gateway.work.join("project");
        fs::create_dir(&source).unwrap();
        if scenario.profile == "worktree_write" {
            make_repository(&source);
        }
        let session = Session::start_as(&gateway.client, &source, scenario.profile);
        let root = PathBuf::from(session.view["workspace"]["root"].as_str().unwrap());
        Self { gateway, session, points, scenario, root, cells: 0, known: Vec::new(), in_doubt: false }
    }

    /// A folder of its own for the next cell, whose files the session has read.
    pub(crate) fn ground(&mut self) -> Ground {
        self.cells += 1;
        let scratch =
            PathBuf::from(format!("{}-work/scratch/{}", self.gateway.state.display(), self.session.id));
        let ground = Ground::make(&self.root, &scratch, format!("cell-{}", self.cells));
        let read = self.session.act(&ground.reads());
        self.known.extend(read.iter().map(id));
        ground
    }

    pub(crate) fn reply(&mut self, ground: &Ground, acts: &[Act]) -> Value {
        let calls: Vec<_> = acts.iter().map(|act| act.call(ground)).collect();
        let calls: Vec<_> = calls.iter().map(|(name, input)| json!({"name": name, "input": input})).collect();
        let turn = self.session.turn();
        json!({
            "turn_id": turn["turn_id"], "reply_id": key(), "wait_seconds": 20, "tool_calls": calls,
        })
    }

    /// Every hit while the reply is carried out and its results go to Claude Code, and the trees around it.
    pub(crate) fn count(&mut self) -> Reference {
        let ground = self.ground();
        let before = ground.tree();
        self.points.arm(None);
        let calls: Vec<_> = self.scenario.calls.iter().map(|act| act.call(&ground)).collect();
        let results = self.session.act(&calls);
        let hits = self.points.hits();
        self.points.disarm();
        assert!(results.iter().all(|result| result["is_error"] == false), "{results:?}");
        assert!(hits.len() > 5, "the programs were built without their crash points: {hits:?}");
        self.known.extend(results.iter().map(id));
        Reference { before, after: ground.tree(), hits }
    }

    /// Kills at one hit, brings the reply to its end, and says how that went.
    pub(crate) fn cell(&mut self, reference: &Reference, hit: (&str, usize), victim: Victim) -> &'static str {
        let ground = self.ground();
        let (reply, struck) = self.strike(&ground, hit, victim);
        match victim {
            Victim::Supervisor => self.recover(),
            // The lease still holds, and only `recover` acknowledges what is in doubt.
            Victim::Worker | Victim::Both => {
                self.look();
                until("the worker's end is noticed", Duration::from_secs(60), || {
                    (!struck || self.session.status(20)["runtime_attached"] == false).then_some(())
                });
            }
        }
        let told = self.finish(&ground, reference, &reply);
        if struck { told } else { "not reached" }
    }

    /// Kills both at one hit, then the supervisor once more at a hit of the start that finds out what happened; says how the
    /// reply ended, and gives the hits of that start.
    pub(crate) fn cell_twice(
        &mut self,
        reference: &Reference,
        hit: (&str, usize),
        again: (&str, usize),
    ) -> (&'static str, Vec<(String, usize)>) {
        let ground = self.ground();
        let (reply, struck) = self.strike(&ground, hit, Victim::Both);
        assert!(struck, "{hit:?} was not reached");
        let (name, number) = again;
        self.gateway.environment.insert(CRASH_POINT.to_owned(), format!("{name}:{number}"));
        self.points.arm(None);
        until("a supervisor is ready", Duration::from_secs(60), || {
            self.gateway.try_to_start_again().then_some(())
        });
        let hits = self.points.hits();
        self.points.disarm();
        self.gateway.environment.remove(CRASH_POINT);
        // What it found out is recorded, and this one dies nowhere.
        self.gateway.restart();
        self.session.client = self.gateway.client.clone();
        self.session.status(20);
        (self.finish(&ground, reference, &reply), hits)
    }

    /// Sends the reply and kills at one hit of what follows. The reply, and whether anybody came there.
    fn strike(&mut self, ground: &Ground, hit: (&str, usize), victim: Victim) -> (Value, bool) {
        let reply = self.reply(ground, self.scenario.calls);
        self.points.arm(Some(hit));
        let (client, arguments) = (self.gateway.client.clone(), self.session.arguments(&reply));
        let sent = thread::spawn(move || client.call("native_session_reply_and_wait", &arguments));
        let struck = self.points.strike(&mut self.gateway, victim, || sent.is_finished());
        // What it says is said again to whoever recovers.
        let _ = sent.join();
        (reply, struck)
    }

    fn finish(&mut self, ground: &Ground, reference: &Reference, reply: &Value) -> &'static str {
        let told = self.settle(ground, reference, reply);
        assert_eq!(ground.tree(), reference.after, "{told}");
        for act in self.scenario.calls.iter().filter(|act| act.has_effect()) {
            let effect = ground.effect(*act, (&reference.before, &reference.after));
            let at_most = effect == Effect::None && told == "in doubt" && *act == Act::Run;
            assert!(effect == Effect::Once || at_most, "{act:?}: {effect:?}, {told}");
        }
        told
    }

    /// A view, from a supervisor that may have to be started again first.
    pub(crate) fn look(&mut self) {
        if !self.gateway.is_alive() {
            self.gateway.restart();
            self.session.client = self.gateway.client.clone();
        }
        self.session.status(20);
    }

    /// A new lease, from a supervisor that may have to be started again first.
    pub(crate) fn recover(&mut self) {
        until("a lease", Duration::from_secs(60), || {
            if !self.gateway.is_alive() {
                self.gateway.restart();
                self.session.client = self.gateway.client.clone();
            }
            match self.session.recover(&key(), 20) {
                Ok(_) => Some(()),
                // One that is dying in this moment resets the connection.
                Err(CallError::Io(_)) => None,
                Err(other) => panic!("{other:?}"),
            }
        });
    }

    /// What a client does that lost its answer: recovers, sends the same reply again, or goes on where the run was lost.
    fn settle(&mut self, ground: &Ground, reference: &Reference, reply: &Value) -> &'static str {
        self.in_doubt = false;
        for _ in 0..LOOKS {
            let turn = self.session.view["pending_turn"].clone();
            let status = self.session.text("status").to_owned();
            if turn["turn_id"] == reply["turn_id"] && !turn.is_null() {
                // Refused or taken: the next look tells.
                let _ = self.session.call("native_session_reply_and_wait", reply).map(|_| ());
            } else if !turn.is_null() {
                return self.carried_on(ground, reference, &turn);
            } else if status == "recovery_required" {
                assert_eq!(self.session.view["recovery_required"], true);
                self.in_doubt = true;
                self.recover();
                assert_eq!(self.session.text("status"), "idle", "{}", self.session.view);
            } else if status == "idle" {
                return self.lost(ground, reference);
            }
            self.session.status(5);
        }
        panic!("stuck: {}", self.session.view)
    }

    /// The run went on: every action has its result, and its effect once.
    fn carried_on(&mut self, ground: &Ground, reference: &Reference, turn: &Value) -> &'static str {
        let results = turn["tool_results"].as_array().cloned().unwrap_or_default();
        assert_eq!(results.len(), self.scenario.calls.len(), "{turn}");
        for (act, result) in self.scenario.calls.iter().zip(&results) {
            assert_eq!(result["is_error"], false, "{act:?}: {turn}");
        }
        self.known.extend(results.iter().map(id));
        assert_eq!(ground.strays((&reference.before, &reference.after)), Vec::<String>::new());
        "carried on"
    }

    /// The run was lost: what is told of each action is true, and what was not done is done now.
    fn lost(&mut self, ground: &Ground, reference: &Reference) -> &'static str {
        assert_eq!(self.session.view["current_run"]["outcome"], "lost", "{}", self.session.view);
        self.session.go_on("again");
        let turn = self.session.turn();
        let told = turn["recovered_actions"].as_array().cloned().unwrap_or_default();
        let told: Vec<_> = told.into_iter().filter(|action| !self.known.contains(&id(action))).collect();
        self.known.extend(told.iter().map(id));
        let trees = (&reference.before, &reference.after);
        assert_eq!(ground.strays(trees), Vec::<String>::new(), "left behind; {told:?}");
        let calls = self.scenario.calls;
        assert!(told.is_empty() || told.len() == calls.len(), "{told:?}");
        let (mut left, mut doubted, mut applied) = (Vec::new(), false, false);
        for (at, act) in calls.iter().enumerate() {
            let outcome = told.get(at).map_or("not_started", |action| action["outcome"].as_str().unwrap());
            let effect = ground.effect(*act, trees);
            let (truthful, done) = match outcome {
                "applied" => (!act.has_effect() || effect == Effect::Once, true),
                "not_applied" | "not_started" => (effect == Effect::None, false),
                // Whether it ran can't be known; what is known is that it ran at most once. It is not run again.
                "indeterminate" => (*act == Act::Run && !matches!(effect, Effect::Other(_)), true),
                _ => (false, false),
            };
            assert!(truthful, "{act:?} is told to be {outcome}, and there is: {effect:?}; {told:?}");
            doubted |= outcome == "indeterminate";
            applied |= outcome == "applied" && act.has_effect();
            if !done {
                left.push(*act);
            }
        }
        assert_eq!(doubted, self.in_doubt, "{told:?}");
        if !left.is_empty() {
            let calls: Vec<_> = left.iter().map(|act| act.call(ground)).collect();
            let results = self.session.act(&calls);
            assert!(results.iter().all(|result| result["is_error"] == false), "{results:?} after {told:?}");
            self.known.extend(results.iter().map(id));
        }
        match (doubted, applied, told.is_empty()) {
            (true, _, _) => "in doubt",
            (_, true, _) => "applied",
            (_, _, true) => "untold",
            _ => "done again",
        }
    }

    /// The session's end: nothing of it is left but its record, which is whole.
    pub(crate) fn end(mut self) {
        self.session.stop();
        self.gateway.wait_for_no_runners();
        let verified = self.gateway.ctl(&["ledger", &self.session.id, "--verify"]);
        assert_eq!(verified.code, 0, "{} {}", verified.json, verified.stderr);
        assert_eq!(leftovers(&self.gateway, &self.session.id), Vec::<PathBuf>::new());
    }
}

pub(crate) fn id(action: &Value) -> String {
    action["action_id"].as_str().unwrap_or_default().to_owned()
}
