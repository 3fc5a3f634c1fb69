//! A ChatGPT that edits, and that asks again whatever it got no answer to.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tests::{
    CallError, Gateway, Session, Victim, key,
    leftovers::leftovers,
    processes::{self, Process},
    tree::snapshot,
    until,
};

const PATIENCE: Duration = Duration::from_secs(180);

/// Where each edit puts its token in front.
const END: &str = "END";

/// One edit: it puts a word that is nowhere else into a file. Done twice the word would be there twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    word: String,
    file: String,
}

/// Kills by what only this gateway's processes have.
pub(crate) struct Assassin {
    supervisor: Arc<AtomicI32>,
    marker: String,
}

/// The session and what is known of its edits.
pub(crate) struct Stream {
    gateway: Gateway,
    session: Session,
    supervisor: Arc<AtomicI32>,
    root: PathBuf,
    /// Every edit that must be there.
    done: Vec<Token>,
    /// Actions that were told of.
    known: BTreeSet<String>,
}

impl Token {
    pub(crate) fn new(edits: &mut usize, file: u64) -> Self {
        *edits += 1;
        Self { word: format!("<{edits}>"), file: format!("file-{file}") }
    }

    fn call(&self, root: &Path) -> Value {
        let input = json!({
            "file_path": root.join(&self.file), "old_string": END, "new_string": format!("{}\n{END}", self.word),
        });
        json!({"name": "Edit", "input": input})
    }

    fn times(&self, root: &Path) -> usize {
        fs::read_to_string(root.join(&self.file)).unwrap().matches(&self.word).count()
    }
}

impl Assassin {
    pub(crate) fn strike(&self, victim: Victim) {
        if victim != Victim::Supervisor {
            processes::naming(&self.marker)
                .iter()
                .filter(|process| process.is_worker())
                .for_each(Process::kill);
        }
        if victim != Victim::Worker {
            // Not waited for before the client sees that it is gone, so the pid is still its own.
            let _ = kill(Pid::from_raw(self.supervisor.load(Ordering::SeqCst)), Signal::SIGKILL);
        }
    }
}

impl Stream {
    pub(crate) fn new() -> Self {
        let gateway = Gateway::start();
        let root = gateway.work.join("project");
        fs::create_dir(&root).unwrap();
        for file in 0..4 {
            fs::write(root.join(format!("file-{file}")), format!("a file that is edited\r\n{END}\n"))
                .unwrap();
        }
        let session = Session::start_as(&gateway.client, &root, "direct_write");
        let supervisor = Arc::new(AtomicI32::new(gateway.pid()));
        let mut stream =
            Self { gateway, session, supervisor, root, done: Vec::new(), known: BTreeSet::new() };
        stream.read();
        stream
    }

    pub(crate) fn assassin(&self) -> Assassin {
        let marker = format!("{}/sessions/", self.gateway.state.display());
        Assassin { supervisor: Arc::clone(&self.supervisor), marker }
    }

    /// Carries these edits out, however often it takes; counts what was acknowledged, told as applied, and not done.
    pub(crate) fn carry_out(&mut self, tokens: &[Token], told: &mut [usize; 3]) {
        let mut left = tokens.to_vec();
        while !left.is_empty() {
            let turn = self.turn(None);
            let calls: Vec<_> = left.iter().map(|token| token.call(&self.root)).collect();
            let reply = json!({
                "turn_id": turn["turn_id"], "reply_id": key(), "wait_seconds": 20, "tool_calls": calls,
            });
            self.call("native_session_reply_and_wait", &reply);
            let next = self.turn(Some(&reply));
            left = self.judge(&left, &next, told);
        }
        self.done.extend_from_slice(tokens);
    }

    /// What the turn after a reply tells of each edit, held against the file: those that are still to be done.
    fn judge(&mut self, sent: &[Token], turn: &Value, told: &mut [usize; 3]) -> Vec<Token> {
        let list = |field: &str| turn[field].as_array().cloned().unwrap_or_default();
        let id = |action: &Value| action["action_id"].as_str().unwrap().to_owned();
        let results: Vec<_> =
            list("tool_results").into_iter().filter(|r| !self.known.contains(&id(r))).collect();
        let recovered: Vec<_> =
            list("recovered_actions").into_iter().filter(|r| !self.known.contains(&id(r))).collect();
        self.known.extend(results.iter().chain(&recovered).map(id));
        assert!(results.is_empty() || results.len() == sent.len(), "{turn}");
        assert!(recovered.is_empty() || recovered.len() == sent.len(), "{turn}");
        let mut left = Vec::new();
        for (at, token) in sent.iter().enumerate() {
            let times = token.times(&self.root);
            let (expected, kind) = match (results.get(at), recovered.get(at)) {
                (Some(result), _) => {
                    assert_eq!(result["is_error"], false, "{result}");
                    (1, 0)
                }
                (None, Some(action)) => match action["outcome"].as_str().unwrap() {
                    "applied" => (1, 1),
                    "not_applied" | "not_started" => (0, 2),
                    other => panic!("an edit is told to be {other}: {action}"),
                },
                // The reply was never taken.
                (None, None) => (0, 2),
            };
            assert_eq!(times, expected, "{token:?} is there {times} times: {turn}");
            told[kind] += 1;
            if expected == 0 {
                left.push(token.clone());
            }
        }
        left
    }

    /// A pending turn, whatever has to be done for it: other than the one that `answered` answers, which is sent again.
    fn turn(&mut self, answered: Option<&Value>) -> Value {
        until("a pending turn", PATIENCE, || {
            let turn = self.session.view["pending_turn"].clone();
            match (answered, self.session.text("status")) {
                (Some(reply), _) if !turn.is_null() && turn["turn_id"] == reply["turn_id"] => {
                    self.call("native_session_reply_and_wait", reply);
                    // Where it was refused, or the answer was lost, a look tells how it stands.
                    self.look();
                }
                (_, "waiting_for_gpt") if !turn.is_null() => {
                    // What is shown may be old; what is answered must not be.
                    self.look();
                    return (self.session.view["pending_turn"] == turn).then_some(turn);
                }
                (_, "idle" | "failed") => {
                    self.call(
                        "native_session_continue",
                        &json!({"prompt": "on", "idempotency_key": key(), "wait_seconds": 20}),
                    );
                    self.look();
                }
                (_, "starting" | "running" | "waiting_for_gpt") => self.look(),
                (_, status) => panic!("{status}: {}", self.session.view),
            }
            None
        })
    }

    /// One call, made once; a refusal or a lost answer is seen by the look that follows.
    fn call(&mut self, tool: &str, more: &Value) {
        self.wake();
        if let Ok(view) = self.gateway.client.call(tool, &self.session.arguments(more)) {
            self.session.view = view;
        }
    }

    /// How the session stands, from a supervisor that may have to be started first; with a new lease.
    fn look(&mut self) {
        until("a view", PATIENCE, || {
            self.wake();
            match self.session.recover(&key(), 5) {
                Ok(_) => Some(()),
                Err(CallError::Tool(error)) => panic!("{error:?}"),
                Err(_) => None,
            }
        });
    }

    /// Starts the supervisor where it is dead, however often it dies at that.
    pub(crate) fn wake(&mut self) {
        until("a supervisor", PATIENCE, || {
            if !self.gateway.is_alive() && !self.gateway.try_to_start_again() {
                return None;
            }
            self.supervisor.store(self.gateway.pid(), Ordering::SeqCst);
            self.session.client = self.gateway.client.clone();
            Some(())
        });
    }

    fn read(&mut self) {
        let files: Vec<_> = (0..4).map(|file| self.root.join(format!("file-{file}"))).collect();
        let reads: Vec<_> = files.iter().map(|file| ("Read", json!({"file_path": file}))).collect();
        let results = self.session.act(&reads);
        self.known.extend(results.iter().map(|result| result["action_id"].as_str().unwrap().to_owned()));
    }

    /// Ends the session, looks at all that it did, and begins another one.
    pub(crate) fn renew(&mut self) {
        self.close();
        self.session = Session::start_as(&self.gateway.client, &self.root, "direct_write");
        self.read();
    }

    pub(crate) fn end(mut self) {
        self.close();
    }

    fn close(&mut self) {
        self.look();
        self.session.stop();
        self.gateway.wait_for_no_runners();
        for token in &self.done {
            assert_eq!(token.times(&self.root), 1, "{token:?}");
        }
        let files: Vec<_> = snapshot(&self.root).into_keys().collect();
        assert_eq!(files, ["file-0", "file-1", "file-2", "file-3"], "something was left behind");
        let verified = self.gateway.ctl(&["ledger", &self.session.id, "--verify"]);
        assert_eq!(verified.code, 0, "{} {}", verified.json, verified.stderr);
        assert_eq!(leftovers(&self.gateway, &self.session.id), Vec::<PathBuf>::new());
    }
}
