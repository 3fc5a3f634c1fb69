//! A gateway whose sessions are born, moved on and ended while somebody dies.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{
    CallError, CrashPoints, Gateway, Session, Victim, key, leftovers::leftovers, processes::Process, until,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The shortest lease, for the sessions that lose it.
const LEASE: Duration = Duration::from_secs(3);

/// How long after the lease's end its worker may take to be gone.
const AFTER_LEASE: Duration = Duration::from_secs(15);

/// What a session goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Its birth, with this profile.
    Start(&'static str),
    /// A prompt for a Claude Code that waits.
    Continue,
    /// A prompt after its worker died.
    ContinueWithNewWorker,
    /// A new lease after its worker died.
    Recover,
    /// The reply that ends its run.
    Answer,
    /// Its end.
    Stop,
    /// Its end by `gatewayctl`.
    StopByOwner,
    /// Nobody calls.
    LeaseRunsOut,
}

/// A gateway.
pub(crate) struct Stage {
    gateway: Gateway,
    points: CrashPoints,
    lifecycle: Lifecycle,
    source: PathBuf,
}

/// A call that is made, and made again after a crash.
type Call = (&'static str, Value);

impl Stage {
    pub(crate) fn new(lifecycle: Lifecycle) -> Self {
        let points = CrashPoints::default();
        let (name, value) = points.setting();
        let lease = if lifecycle == Lifecycle::LeaseRunsOut { LEASE } else { Duration::from_secs(600) };
        let gateway =
            Gateway::with(&[(name, &value), ("CLAUDE_TOOLS_LEASE_SECONDS", &lease.as_secs().to_string())]);
        let source = gateway.work.join("project");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("kept"), "kept").unwrap();
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(arguments);
            assert!(git.current_dir(&source).env("HOME", &source).status().unwrap().success());
        }
        Self { gateway, points, lifecycle, source }
    }

    /// Every hit where nobody dies.
    pub(crate) fn count(&mut self) -> Vec<(String, usize)> {
        let (session, call) = self.prepare();
        self.points.arm(None);
        match &call {
            Some((tool, arguments)) => {
                self.gateway.client.call(tool, arguments).unwrap();
            }
            None => self.wait_by_itself(&session),
        }
        let hits = self.points.hits();
        self.points.disarm();
        self.end(session, call);
        hits
    }

    /// Kills at one hit, makes the call again, and brings the session to its end; says where it stood.
    pub(crate) fn cell(&mut self, hit: (&str, usize), victim: Victim) -> &'static str {
        let (session, call) = self.prepare();
        self.points.arm(Some(hit));
        let struck = match call.clone() {
            Some((tool, arguments)) => {
                let client = self.gateway.client.clone();
                let sent = thread::spawn(move || client.call(tool, &arguments).is_ok());
                let struck = self.points.strike(&mut self.gateway, victim, || sent.is_finished());
                let _ = sent.join();
                struck
            }
            None if self.lifecycle == Lifecycle::StopByOwner => {
                let id = session.as_ref().unwrap().id.clone();
                let mut command = self.gateway.command("gatewayctl");
                let mut sent = command.args(["stop", &id, "--json"]).spawn().unwrap();
                let over = std::cell::RefCell::new(&mut sent);
                let struck = self
                    .points
                    .strike(&mut self.gateway, victim, || !matches!(over.borrow_mut().try_wait(), Ok(None)));
                sent.wait().unwrap();
                struck
            }
            None => {
                let until = Instant::now() + LEASE + AFTER_LEASE;
                self.points.strike(&mut self.gateway, victim, || Instant::now() > until)
            }
        };
        if !self.gateway.is_alive() {
            self.gateway.restart();
        }
        let end = self.end(session, call);
        if struck { end } else { "not reached" }
    }

    /// A session that is about to do it, and the call.
    fn prepare(&self) -> (Option<Session>, Option<Call>) {
        let client = &self.gateway.client;
        if let Lifecycle::Start(profile) = self.lifecycle {
            let start = json!({
                "prompt": "p", "idempotency_key": key(), "working_directory": self.source,
                "capability_profile": profile, "wait_seconds": 20,
            });
            return (None, Some(("native_session_start", start)));
        }
        let mut session = Session::start_as(client, &self.source, "direct_write");
        let call = match self.lifecycle {
            Lifecycle::Start(_) | Lifecycle::LeaseRunsOut | Lifecycle::StopByOwner => None,
            Lifecycle::Continue | Lifecycle::ContinueWithNewWorker => {
                if self.lifecycle == Lifecycle::Continue {
                    session.finish("done");
                } else {
                    self.lose_worker(&mut session);
                }
                let prompt = json!({"prompt": "q", "idempotency_key": key(), "wait_seconds": 20});
                Some(("native_session_continue", session.arguments(&prompt)))
            }
            Lifecycle::Recover => {
                self.lose_worker(&mut session);
                let recover = json!({
                    "native_session_id": session.id, "recovery_token": session.recovery_token,
                    "recovery_id": key(),
                });
                Some(("native_session_recover", recover))
            }
            Lifecycle::Answer => {
                let turn = session.turn()["turn_id"].clone();
                let reply =
                    json!({"turn_id": turn, "reply_id": key(), "text": "the end", "wait_seconds": 20});
                Some(("native_session_reply_and_wait", session.arguments(&reply)))
            }
            Lifecycle::Stop => {
                let stop = json!({"request_id": key(), "reason": "enough"});
                Some(("native_session_stop", session.arguments(&stop)))
            }
        };
        (Some(session), call)
    }

    fn lose_worker(&self, session: &mut Session) {
        self.gateway.runners().iter().filter(|process| process.is_worker()).for_each(Process::kill);
        session.wait_for_status("idle");
    }

    fn wait_by_itself(&self, session: &Option<Session>) {
        let id = &session.as_ref().unwrap().id;
        if self.lifecycle == Lifecycle::StopByOwner {
            assert_eq!(self.gateway.ctl(&["stop", id]).code, 0);
            return;
        }
        until("the lease runs out", LEASE + AFTER_LEASE, || {
            (self.gateway.ctl(&["show", id]).json["status"] == "lease_expired").then_some(())
        });
        self.gateway.wait_for_no_runners();
    }

    /// Makes the call again until it is taken, and ends the session: where it stood after the call.
    fn end(&mut self, session: Option<Session>, call: Option<Call>) -> &'static str {
        let view = call.map(|(tool, arguments)| self.again(tool, &arguments));
        let started = session.is_none();
        let mut session = session.unwrap_or_else(|| Session::of(&self.gateway.client, view.clone().unwrap()));
        session.client = self.gateway.client.clone();
        if let Some(view) = view {
            session.view = view;
        }
        let stood = match self.lifecycle {
            Lifecycle::Stop => named(session.text("status")),
            Lifecycle::StopByOwner => {
                // Its client lost its answer as well.
                until("the owner's stop", PATIENCE, || {
                    (self.gateway.ctl(&["stop", &session.id]).code == 0).then_some(())
                });
                named(self.gateway.ctl(&["show", &session.id]).json["status"].as_str().unwrap_or_default())
            }
            Lifecycle::LeaseRunsOut => self.lease_over(&mut session),
            Lifecycle::Answer => {
                session.wait_for_status("idle");
                assert_eq!(session.view["last_result"]["text"], "the end", "{}", session.view);
                "idle"
            }
            Lifecycle::Start(_)
            | Lifecycle::Continue
            | Lifecycle::ContinueWithNewWorker
            | Lifecycle::Recover => to_a_turn(&mut session),
        };
        if started {
            let sessions = self.gateway.ctl(&["sessions"]).json["sessions"].clone();
            let open = sessions.as_array().unwrap().iter().filter(|line| line["status"] != "stopped");
            assert_eq!(open.count(), 1, "a start gave more than one session, or none: {sessions}");
        }
        if session.text("status") != "stopped" && self.lifecycle != Lifecycle::StopByOwner {
            session.stop();
        }
        self.nothing_left(&session);
        stood
    }

    /// What happened to a session whose lease ran out, and that it can go on.
    fn lease_over(&self, session: &mut Session) -> &'static str {
        let mut status = String::new();
        until("the lease is over", LEASE + AFTER_LEASE, || {
            let shown = self.gateway.ctl(&["show", &session.id]).json;
            status = shown["status"].as_str().unwrap_or_default().to_owned();
            (status == "lease_expired" && shown["runtime_attached"] == false).then_some(())
        });
        self.gateway.wait_for_no_runners();
        session.recover(&key(), 20).unwrap();
        assert_eq!(session.text("status"), "idle", "{}", session.view);
        "lease_expired"
    }

    fn again(&self, tool: &str, arguments: &Value) -> Value {
        let mut refused = None;
        until("the call is taken", PATIENCE, || match self.gateway.client.call(tool, arguments) {
            Ok(view) => Some(view),
            Err(CallError::Tool(error)) if error.body["retryable"] == false => {
                refused = Some(error);
                Some(Value::Null)
            }
            Err(_) => None,
        })
        .as_object()
        .map_or_else(|| panic!("{tool} was refused when it was made again: {refused:?}"), |view| json!(view))
    }

    fn nothing_left(&self, session: &Session) {
        self.gateway.wait_for_no_runners();
        let verified = self.gateway.ctl(&["ledger", &session.id, "--verify"]);
        assert_eq!(verified.code, 0, "{} {}", verified.json, verified.stderr);
        assert_eq!(leftovers(&self.gateway, &session.id), Vec::<PathBuf>::new());
    }
}

/// Brings a session to a pending turn by what its view says: where it stood before.
fn to_a_turn(session: &mut Session) -> &'static str {
    let (mut stood, end) = ("", Instant::now() + PATIENCE);
    while session.view["pending_turn"].is_null() {
        assert!(Instant::now() < end, "stuck: {}", session.view);
        stood = named(session.text("status"));
        match stood {
            "idle" | "failed" => session.go_on("once more"),
            _ => {
                session.status(5);
            }
        }
    }
    if stood.is_empty() { "waiting_for_gpt" } else { stood }
}

/// The status, which must be one of those that have a name.
fn named(status: &str) -> &'static str {
    let all = [
        "starting",
        "waiting_for_gpt",
        "running",
        "idle",
        "stopping",
        "stopped",
        "lease_expired",
        "failed",
        "recovery_required",
    ];
    all.into_iter().find(|known| *known == status).unwrap_or_else(|| panic!("{status:?} is no status"))
}
