//! The owner's socket, end to end, with a gateway of one session.

use std::os::unix::fs::PermissionsExt;

use protocol::{
    profile::{Profile, SubagentPolicy},
    session::Status,
};
use serde_json::Value;

use super::*;
use crate::session::view::{LastResult, NetworkBoundary, WorkspaceView};

fn sample(session: SessionId, text: &str) -> SessionView {
    SessionView {
        native_session_id: session.to_string(),
        claude_session_id: "0".into(),
        status: Status::Idle,
        revision: 7,
        replay: false,
        route: "chatgpt-main",
        fallback: "none",
        lease_id: "lease_secret".into(),
        lease_expires_at: "2030-01-01T00:00:00.000Z".into(),
        session_label: Some("one".into()),
        capability_profile: Profile::ReadOnly,
        subagent_policy: SubagentPolicy::None,
        deepseek_route: None,
        deepseek_subsessions: Vec::new(),
        active_deepseek_subsession_id: None,
        skill_snapshot: Vec::new(),
        working_directory: "/x".into(),
        source_directory: "/x".into(),
        workspace: WorkspaceView {
            kind: "read_only",
            root: "/x".into(),
            branch: None,
            base_commit: None,
            notes: Vec::new(),
        },
        network_boundary: NetworkBoundary {
            claude: String::new(),
            commands: String::new(),
            enforced_by: Vec::new(),
        },
        runtime_attached: true,
        recovery_required: false,
        current_run: None,
        pending_turn: None,
        stop_request: None,
        terminal: None,
        last_result: Some(LastResult {
            run_id: "r".into(),
            outcome: protocol::session::RunOutcome::Finished,
            text: text.into(),
        }),
        launch_error: None,
        recovery_token: Some("recovery_secret".into()),
        claude_code: None,
        next: Some("native_session_continue with lease_secret".into()),
    }
}

#[derive(Clone)]
struct One(SessionId, String);

impl Owner for One {
    async fn overview(&self) -> Result<Overview, Failure> {
        Ok(Overview {
            version: "1".into(),
            mcp_url: "http://127.0.0.1:1/mcp".into(),
            started_at: "2030-01-01T00:00:00.000Z".into(),
            sessions: SessionCounts { stored: 1, attached: 1 },
        })
    }

    async fn list(&self) -> Result<Vec<SessionLine>, Failure> {
        Ok(vec![SessionLine::from(&sample(self.0, "")); 9_000])
    }

    async fn show(&self, session: SessionId) -> Result<SessionView, Failure> {
        if session == self.0 {
            return Ok(sample(session, &self.1));
        }
        Err(Failure::fixed(ErrorCode::SessionNotFound, "no such session", "gatewayctl sessions"))
    }

    async fn worktrees(&self) -> Result<Vec<crate::control::WorktreeLine>, Failure> {
        Ok(Vec::new())
    }

    async fn remove_worktree(&self, session: SessionId) -> Result<crate::control::WorktreeLine, Failure> {
        Err(crate::session::refusal::no_session(&session.to_string()))
    }

    async fn stop_by_owner(&self, session: SessionId, _: Option<String>) -> Result<SessionView, Failure> {
        self.show(session).await
    }

    async fn undo(&self, session: SessionId, _: String) -> Result<Undone, Failure> {
        Err(crate::session::refusal::no_session(&session.to_string()))
    }
}

struct Served {
    state: tempfile::TempDir,
    drain: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn served(owner: One) -> Served {
    let state = tempfile::tempdir().unwrap();
    let listener = socket::listen(state.path(), socket::CONTROL).unwrap();
    let drain = CancellationToken::new();
    let task = tokio::spawn(serve(listener, owner, drain.clone()));
    Served { state, drain, task }
}

async fn ask(state: &std::path::Path, bytes: &[u8]) -> ControlAnswer {
    let mut stream = socket::connect(state, socket::CONTROL).await.unwrap();
    frame::write(&mut stream, bytes).await.unwrap();
    serde_json::from_slice(&frame::read(&mut stream).await.unwrap().unwrap()).unwrap()
}

fn done(answer: ControlAnswer) -> Value {
    match answer {
        ControlAnswer::Done { body } => body,
        ControlAnswer::Refused { failure } => panic!("{failure}"),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn the_owner_sees_sessions_without_their_tokens_and_every_answer_fits() {
    let session = SessionId::mint();
    let Served { state, drain, task } = served(One(session, "ü".repeat(2 << 20)));
    let path = socket::path(state.path(), socket::CONTROL);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let status = done(ask(state.path(), br#"{"request":"status"}"#).await);
    assert_eq!(status["sessions"]["stored"], 1);

    let list = done(ask(state.path(), br#"{"request":"sessions"}"#).await);
    let shown = list["sessions"].as_array().unwrap().len();
    assert_eq!(shown as u64 + list["omitted"].as_u64().unwrap(), 9_000);
    assert!(shown > 1_000, "{shown}");

    for request in ["show", "stop"] {
        let text = format!(r#"{{"request":"{request}","session":"{session}"}}"#);
        let view = done(ask(state.path(), text.as_bytes()).await);
        assert_eq!(view["status"], "idle");
        assert!(view["last_result"]["text"].as_str().unwrap().ends_with("more bytes)"));
        assert!(!view.to_string().contains("secret"), "{request} shows a token");
    }
    drain.cancel();
    task.await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_not_understood_is_refused_and_the_next_request_answered() {
    let Served { state, drain, task } = served(One(SessionId::mint(), String::new()));
    let mut stream = socket::connect(state.path(), socket::CONTROL).await.unwrap();
    let unknown = format!(r#"{{"request":"show","session":"{}"}}"#, SessionId::mint());
    for (bytes, code) in [
        (&b"not json"[..], ErrorCode::InvalidArgument),
        (br#"{"request":"explode"}"#, ErrorCode::InvalidArgument),
        (br#"{"request":"show","session":"ses_1"}"#, ErrorCode::InvalidArgument),
        (b"", ErrorCode::InvalidArgument),
        (unknown.as_bytes(), ErrorCode::SessionNotFound),
    ] {
        frame::write(&mut stream, bytes).await.unwrap();
        let answer = frame::read(&mut stream).await.unwrap().unwrap();
        match serde_json::from_slice(&answer).unwrap() {
            ControlAnswer::Refused { failure } => assert_eq!(failure.code, code),
            ControlAnswer::Done { body } => panic!("{body}"),
        }
    }
    drain.cancel();
    task.await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_stale_socket_is_replaced_and_anything_else_is_left_alone() {
    let state = tempfile::tempdir().unwrap();
    drop(socket::listen(state.path(), socket::CONTROL).unwrap());
    drop(socket::listen(state.path(), socket::CONTROL).unwrap());
    socket::remove(state.path(), socket::CONTROL);
    let path = socket::path(state.path(), socket::CONTROL);
    assert!(!path.exists());
    std::fs::write(&path, "mine").unwrap();
    assert!(socket::listen(state.path(), socket::CONTROL).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[tokio::test(flavor = "current_thread")]
async fn a_state_with_a_long_path_still_has_a_socket() {
    let state = tempfile::tempdir().unwrap();
    let long = state.path().join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    let _listener = socket::listen(&long, socket::CONTROL).unwrap();
    assert!(!socket::path(&long, socket::CONTROL).starts_with(&long));
    socket::connect(&long, socket::CONTROL).await.unwrap();
    socket::remove(&long, socket::CONTROL);
    assert!(socket::connect(&long, socket::CONTROL).await.is_err());
}
