//! How a session is shown: the one place where private state becomes a public view.
//!
//! Invariant: a recovery token is shown only where the caller put one in.

mod cut;
mod next;
mod subsessions;
mod turn;
mod worktree;

use protocol::{
    claude_code, lease::Lease, profile::SubagentPolicy, secret::Token, session::RunOutcome,
    skill::SkillSnapshot, workspace::WorkspaceKind,
};

use super::{
    state::{Life, Run, State, StopRequest},
    view::{
        ClaudeCodeView, DeepseekRoute, LastResult, LaunchError, NetworkBoundary, RunView, SessionView,
        SkillView, StopRequestView, WorkspaceView,
    },
};

/// For whom a session is shown.
#[derive(Debug, Clone)]
pub(crate) struct Audience {
    /// Whether the call was made before.
    pub(crate) replay: bool,
    /// The lease to show; it may have been rotated since.
    pub(crate) lease: Lease,
    /// The recovery token, for the one who started the session.
    pub(crate) token: Option<Token>,
    /// Bytes of text of the pending turn.
    pub(crate) turn_bytes: usize,
    /// Whether the ledger does not take what has to be recorded.
    pub(crate) held_up: bool,
}

/// The session as this audience may see it.
pub(crate) fn view(state: &State, audience: &Audience) -> SessionView {
    let (birth, status) = (&state.birth, state.status());
    let stop = match &state.life {
        Life::Stopping(request) | Life::Stopped(request) => Some(stop_view(request)),
        Life::Live | Life::LeaseExpired => None,
    };
    SessionView {
        native_session_id: birth.session_id.to_string(),
        claude_session_id: birth.claude_session_id.to_string(),
        status,
        revision: state.revision,
        replay: audience.replay,
        route: "chatgpt-main",
        fallback: "none",
        lease_id: audience.lease.lease_id.to_string(),
        lease_expires_at: audience.lease.expires_at.to_string(),
        session_label: birth.label.clone(),
        capability_profile: birth.profile,
        subagent_policy: birth.subagent_policy,
        deepseek_route: (birth.subagent_policy == SubagentPolicy::DeepseekExplicit)
            .then_some(DeepseekRoute { sonnet: "flash", opus: "flash", fable: "pro" }),
        deepseek_subsessions: subsessions::views(state),
        active_deepseek_subsession_id: state.active_subsession().map(|sub| sub.id.to_string()),
        skill_snapshot: birth.skills.iter().map(skill_view).collect(),
        working_directory: birth.workspace.root.to_string_lossy().into_owned(),
        source_directory: birth.workspace.source.to_string_lossy().into_owned(),
        workspace: workspace_view(state),
        network_boundary: boundary(),
        runtime_attached: state.runtime_attached(),
        recovery_required: state.recovery_required(),
        current_run: state.run.as_ref().map(run_view),
        pending_turn: state.open_turn().map(|open| turn::view(state, open, audience.turn_bytes)),
        stop_request: stop,
        terminal: Some(state.ended()),
        last_result: state.run.as_ref().and_then(result_view),
        launch_error: state
            .launch_error
            .as_ref()
            .map(|(code, message)| LaunchError { code: *code, message: message.clone() }),
        recovery_token: audience.token.as_ref().map(|token| token.expose().clone()),
        claude_code: state.claude_version.as_ref().map(|said| claude_code::number(said)).map(|number| {
            ClaudeCodeView { version: number.to_owned(), verified: claude_code::verified(number) }
        }),
        next: Some(if audience.held_up {
            next::HELD_UP.to_owned()
        } else {
            next::step(state, audience.lease.lease_id)
        }),
    }
}

fn stop_view(request: &StopRequest) -> StopRequestView {
    StopRequestView {
        request_id: request.request_id.as_ref().map(ToString::to_string),
        reason: request.reason.clone(),
        requested_at: request.at.to_string(),
    }
}

fn skill_view(skill: &SkillSnapshot) -> SkillView {
    SkillView {
        skill_id: skill.skill_id.clone(),
        content_sha256: skill.content_sha256.to_string(),
        body_sha256: skill.body_sha256.to_string(),
        body_bytes: skill.body_bytes,
    }
}

fn workspace_view(state: &State) -> WorkspaceView {
    let workspace = &state.birth.workspace;
    let (kind, branch, base_commit) = match &workspace.kind {
        WorkspaceKind::ReadOnly => ("read_only", None, None),
        WorkspaceKind::Direct => ("direct", None, None),
        WorkspaceKind::Worktree { branch, base_commit } => {
            ("worktree", Some(branch.clone()), Some(base_commit.clone()))
        }
    };
    let root = workspace.root.to_string_lossy().into_owned();
    let notes = workspace.notes.iter().cloned().chain(worktree::note(state)).collect();
    WorkspaceView { kind, root, branch, base_commit, notes }
}

/// A session whose walls don't stand does not start, so this holds for every process that it ever has.
fn boundary() -> NetworkBoundary {
    let walls: &[&str] =
        if cfg!(target_os = "macos") { &["seatbelt"] } else { &["namespaces", "landlock", "seccomp"] };
    NetworkBoundary {
        claude: "loopback_port_only".to_owned(),
        commands: "none".to_owned(),
        enforced_by: walls.iter().map(|wall| (*wall).to_owned()).collect(),
    }
}

fn run_view(run: &Run) -> RunView {
    RunView {
        run_id: run.run_id.to_string(),
        sequence: run.sequence,
        started_at: run.started_at.to_string(),
        outcome: Some(run.outcome),
    }
}

fn result_view(run: &Run) -> Option<LastResult> {
    let text = match run.outcome {
        RunOutcome::Running => return None,
        RunOutcome::Finished => run.answer.as_ref().and_then(|a| a.reply.text.clone()).unwrap_or_default(),
        // A start that failed gave no result: launch_error says what happened.
        RunOutcome::Failed if run.turns == 0 && run.detail.is_none() => return None,
        RunOutcome::Failed => run.detail.clone().unwrap_or_else(|| "Claude Code ended the run".to_owned()),
        RunOutcome::Lost => "the process that carried this run is gone; it gave no result".to_owned(),
        RunOutcome::Stopped => "the session was stopped before the run gave a result".to_owned(),
    };
    Some(LastResult { run_id: run.run_id.to_string(), outcome: run.outcome, text })
}
