//! The gateway with a real ledger and workers that speak the real link, but whose Claude Code is a script.

mod fake_worker;
mod lifecycle;
mod losses;
mod promises;

use std::{path::PathBuf, time::Duration};

use protocol::{failure::Failure, limits::TURN_BYTES, session::Status};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{gateway::Gateway, house::House};
use crate::{
    config::{Config, GitPlace},
    ledger::Ledger,
    mcp::{
        config::ResponseMode,
        failure::TextMode,
        input::{ContinueInput, RecoverInput, ReplyInput, StartInput, StatusInput, StopInput, ToolCall},
        sessions::{Caller, Sessions},
    },
    session::{keys::InstallKey, summary, view::SessionView},
};
use fake_worker::Fakes;

/// A gateway on a state of its own.
struct Rig {
    folder: tempfile::TempDir,
    lease: Duration,
    fakes: Fakes,
    gateway: Gateway,
}

impl Rig {
    async fn new() -> Self {
        Self::with_lease(Duration::from_secs(60)).await
    }

    async fn with_lease(lease: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let fakes = Fakes::default();
        let gateway = open(folder.path().to_owned(), lease, fakes.clone()).await;
        Self { folder, lease, fakes, gateway }
    }

    /// The supervisor ends and another one begins; the workers live on.
    async fn restart(&mut self) {
        self.gateway.drain().await;
        self.gateway = open(self.folder.path().to_owned(), self.lease, self.fakes.clone()).await;
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    fn start_input(&self, key: &str, prompt: &str) -> StartInput {
        StartInput {
            prompt: prompt.into(),
            idempotency_key: key.into(),
            working_directory: self.work().to_str().unwrap().into(),
            capability_profile: None,
            subagent_policy: None,
            skill_contexts: None,
            session_label: None,
            wait_seconds: Some(20),
        }
    }

    async fn start(&self, key: &str, prompt: &str) -> SessionView {
        self.gateway.start(self.start_input(key, prompt), Caller::default()).await.unwrap()
    }

    /// Starts without waiting for the first turn.
    async fn begin(&self, key: &str, prompt: &str) -> SessionView {
        let input = StartInput { wait_seconds: Some(0), ..self.start_input(key, prompt) };
        self.gateway.start(input, Caller::default()).await.unwrap()
    }

    async fn status(&self, view: &SessionView, wait: u64) -> Result<SessionView, Failure> {
        let input = StatusInput {
            native_session_id: view.native_session_id.clone(),
            lease_id: view.lease_id.clone(),
            wait_seconds: Some(wait),
        };
        self.gateway.status(input, Caller::default()).await
    }

    async fn reply(
        &self,
        view: &SessionView,
        key: &str,
        content: Content<'_>,
    ) -> Result<SessionView, Failure> {
        let turn = view.pending_turn.as_ref().unwrap().turn_id.clone();
        self.gateway.reply(reply_input(view, &turn, key, content), Caller::default()).await
    }

    async fn continue_(&self, view: &SessionView, key: &str, prompt: &str) -> Result<SessionView, Failure> {
        let input = ContinueInput {
            native_session_id: view.native_session_id.clone(),
            lease_id: view.lease_id.clone(),
            prompt: prompt.into(),
            idempotency_key: key.into(),
            wait_seconds: Some(20),
        };
        self.gateway.continue_(input, Caller::default()).await
    }

    async fn recover(&self, born: &SessionView, key: &str) -> Result<SessionView, Failure> {
        let input = RecoverInput {
            native_session_id: born.native_session_id.clone(),
            recovery_token: born.recovery_token.clone().unwrap(),
            recovery_id: key.into(),
            wait_seconds: Some(0),
        };
        self.gateway.recover(input, Caller::default()).await
    }

    async fn stop(&self, view: &SessionView, key: &str) -> Result<SessionView, Failure> {
        let input = StopInput {
            native_session_id: view.native_session_id.clone(),
            lease_id: view.lease_id.clone(),
            request_id: key.into(),
            reason: None,
        };
        self.gateway.stop(input, Caller::default()).await
    }

    /// Looks until the session stands so, without renewing anything for longer than it takes.
    async fn until(&self, view: &SessionView, wanted: Status) -> SessionView {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            let now = crate::control::Owner::show(&self.gateway, view.native_session_id.parse().unwrap())
                .await
                .unwrap();
            if now.status == wanted {
                return now;
            }
            assert!(tokio::time::Instant::now() < deadline, "{:?} instead of {wanted:?}", now.status);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What a reply says.
#[derive(Debug, Clone, Copy)]
enum Content<'a> {
    Text(&'a str),
    Reads(&'a [&'a str]),
}

fn reply_input(view: &SessionView, turn: &str, key: &str, content: Content<'_>) -> ReplyInput {
    let (text, tool_calls) = match content {
        Content::Text(text) => (Some(text.to_owned()), None),
        Content::Reads(paths) => (None, Some(paths.iter().map(|path| read(path)).collect())),
    };
    ReplyInput {
        native_session_id: view.native_session_id.clone(),
        lease_id: view.lease_id.clone(),
        turn_id: turn.into(),
        reply_id: key.into(),
        text,
        tool_calls,
        wait_seconds: Some(20),
    }
}

fn read(path: &str) -> ToolCall {
    ToolCall { name: "Read".into(), input: json!({ "file_path": path }) }
}

async fn open(folder: PathBuf, lease: Duration, fakes: Fakes) -> Gateway {
    let state = folder.join("state");
    // The one before may still hold the lock for a moment.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    let ledger = loop {
        match Ledger::open(&state, summary::summarise) {
            Ok(ledger) => break ledger,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let config = Config {
        work: folder.join("state-work"),
        claude: vec![PathBuf::from("/bin/sh")],
        listen: "127.0.0.1:0".parse().unwrap(),
        lease,
        turn_bytes: TURN_BYTES,
        response: ResponseMode::Json,
        text: TextMode::Full,
        delegation: protocol::wire::launch::Delegation {
            program: PathBuf::new(),
            url: String::new(),
            key_file: None,
            ca_file: None,
            flash: String::new(),
            pro: String::new(),
            seconds: 1,
            turns: 1,
        },
        skills: crate::skill::Allowlist::default(),
        homes: vec![],
        protected: Vec::new(),
        command_environment: Vec::new(),
        git: GitPlace::default(),
        state: state.clone(),
    };
    let keys = InstallKey::open(&state).unwrap();
    let worker = folder.join("no-such-program");
    let house = House { config, ledger, keys, umask: 0o022, spawner: Box::new(fakes), worker };
    let gateway = Gateway::new(house, "http://127.0.0.1:0/mcp".into(), CancellationToken::new());
    gateway.attach().await;
    gateway
}

fn code(result: Result<SessionView, Failure>) -> &'static str {
    match result {
        Ok(view) => panic!("expected a refusal, got {:?}", view.status),
        Err(failure) => failure.code.text(),
    }
}

/// A view without what differs between two looks at the same state.
fn stable(view: &SessionView) -> Value {
    let mut value = serde_json::to_value(view).unwrap();
    for field in ["replay", "lease_expires_at", "recovery_token"] {
        value.as_object_mut().unwrap().remove(field);
    }
    value
}
