//! One fault during one reply, and what a client and the owner do after it.

use std::{collections::BTreeMap, fs, thread, time::Duration};

use serde_json::{Value, json};
use tests::{CallError, processes::Process, until};

use super::tracer::{Fault, Target, Tracer, counted};
use crate::crash_matrix::{
    scenario::{Act, Effect, Ground},
    scene::{Reference, Scene, id},
};

/// A session is looked at this often before it counts as stuck.
const LOOKS: usize = 60;

impl Scene {
    fn pid(&self, target: Target) -> i32 {
        match target {
            Target::Supervisor => self.gateway.pid(),
            Target::Worker => self.gateway.runners().into_iter().find(Process::is_worker).unwrap().pid,
        }
    }

    /// How often one thread of the process makes each of these calls while the reply is carried out.
    pub(crate) fn calls(mut self, target: Target, calls: &[&'static str]) -> BTreeMap<&'static str, usize> {
        let ground = self.ground();
        let tracer = Tracer::listen(self.pid(target), calls);
        let acts: Vec<_> = self.scenario.calls.iter().map(|act| act.call(&ground)).collect();
        self.session.act(&acts);
        let counted = counted(&tracer.detach(), calls);
        self.session.stop();
        counted
    }

    /// Fails one call while the reply is carried out, then mends it; says how the reply ended.
    pub(crate) fn fault(&mut self, reference: &Reference, fault: &Fault) -> String {
        let ground = self.ground();
        let reply = self.reply(&ground, self.scenario.calls);
        let pid = self.pid(fault.target);
        let tracer = Tracer::inject(pid, fault);
        let (client, arguments) = (self.gateway.client.clone(), self.session.arguments(&reply));
        let sent = thread::spawn(move || client.call("native_session_reply_and_wait", &arguments));
        until("the call returns, or the process ends", Duration::from_secs(60), || {
            let gone = match fault.target {
                Target::Supervisor => !self.gateway.is_alive(),
                Target::Worker => !self.gateway.runners().iter().any(|process| process.pid == pid),
            };
            (sent.is_finished() || gone).then_some(())
        });
        let log = tracer.detach();
        // What it says is said again to whoever asks.
        let _ = sent.join();
        self.look();
        let told = self.settle_after(&ground, reference, &reply);
        assert_eq!(ground.tree(), reference.after, "{told}");
        if log.contains("INJECTED") || log.contains("+++ killed by SIGKILL +++") {
            told
        } else {
            format!("not reached; {told}")
        }
    }

    fn settle_after(&mut self, ground: &Ground, reference: &Reference, reply: &Value) -> String {
        let mut told = String::new();
        for _ in 0..LOOKS {
            let turn = self.session.view["pending_turn"].clone();
            if turn["turn_id"] == reply["turn_id"] && !turn.is_null() {
                told = self.once_more("native_session_reply_and_wait", reply, told);
            } else if let Some(results) = turn["tool_results"].as_array() {
                let results = results.clone();
                return told + &self.judge(ground, reference, &results);
            } else if !turn.is_null() {
                let recovered = turn["recovered_actions"].as_array().cloned().unwrap_or_default();
                let recovered: Vec<_> =
                    recovered.into_iter().filter(|action| !self.known.contains(&id(action))).collect();
                return told + &self.judge(ground, reference, &recovered);
            } else if self.session.text("status") == "idle" {
                let go_on = json!({"prompt": "again", "idempotency_key": tests::key(), "wait_seconds": 20});
                told = self.once_more("native_session_continue", &go_on, told);
            } else if self.session.text("status") == "recovery_required" {
                self.recover();
            } else {
                self.session.status(5);
                if self.session.view["next"].as_str().is_some_and(|next| next.contains("held up")) {
                    told += "held up, restarted; ";
                    self.gateway.kill();
                    self.look();
                }
            }
        }
        panic!("stuck: {}", self.session.view)
    }

    /// Makes a call; where the ledger can't be written any more, the owner mends the disk and starts the supervisor again.
    fn once_more(&mut self, tool: &str, more: &Value, told: String) -> String {
        match self.session.call(tool, more).map(|_| ()) {
            Err(CallError::Tool(error)) if error.code == "ledger_unavailable" => {
                assert!(
                    error.body["message"].as_str().is_some_and(|text| text.len() > 20),
                    "{:?}",
                    error.body
                );
                self.gateway.kill();
                self.look();
                format!("{told}{}, restarted; ", error.code)
            }
            Err(CallError::Tool(_)) => {
                self.session.status(5);
                told
            }
            Err(other) => panic!("{tool}: {other:?}"),
            Ok(()) => told,
        }
    }

    /// Holds what is told of each action against what is there, and does what was not done.
    fn judge(&mut self, ground: &Ground, reference: &Reference, told: &[Value]) -> String {
        let trees = (&reference.before, &reference.after);
        self.known.extend(told.iter().map(id));
        for stray in ground.strays(trees) {
            // What a disk did not let go of is named, so that the owner can clear it up.
            let text = format!("{told:?}");
            assert!(
                text.contains("indeterminate") && text.contains(&stray),
                "{stray} was left behind: {text}"
            );
            fs::remove_file(ground.folder.join(stray)).unwrap();
        }
        let mut said = Vec::new();
        let mut left: Vec<Act> = Vec::new();
        for (at, act) in self.scenario.calls.iter().enumerate() {
            let effect = ground.effect(*act, trees);
            let code = told.get(at).map_or("untold", how);
            let fits = match code {
                "ok" | "applied" => effect == Effect::Once,
                "indeterminate" => matches!(effect, Effect::None | Effect::Once),
                _ => effect == Effect::None,
            };
            assert!(fits, "{act:?} is told to be {code}, and there is {effect:?}: {told:?}");
            if effect == Effect::None {
                left.push(*act);
            }
            said.push(if effect == Effect::None { format!("{code}, done again") } else { code.to_owned() });
        }
        if !left.is_empty() {
            let read = self.session.act(&ground.reads());
            let calls: Vec<_> = left.iter().map(|act| act.call(ground)).collect();
            let results = self.session.act(&calls);
            assert!(results.iter().all(|result| result["is_error"] == false), "{results:?} after {told:?}");
            self.known.extend(read.iter().chain(&results).map(id));
        }
        said.join(", ")
    }
}

/// What a result or a recovered action says of its effect.
fn how(action: &Value) -> &str {
    if let Some(outcome) = action["outcome"].as_str() {
        return outcome;
    }
    if action["is_error"] == false {
        return "ok";
    }
    let text = action["content"].as_str().unwrap_or_default();
    let (code, rest) = text.split_once(": ").unwrap_or_default();
    assert!(!code.is_empty() && rest.len() > 20, "no clear error: {text:?}");
    code
}
