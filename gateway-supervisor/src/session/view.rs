//! The session view: the result of all six tools, and the boundary behind which everything private stays.
//!
//! Invariant: nothing here holds a token of another party, a pid, an internal path, or an authorization id.
//! Invariant: fields are only ever added.

use protocol::{
    action::Resolution,
    failure::ErrorCode,
    profile::{Profile, SubagentPolicy},
    session::{RunOutcome, Status},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SessionView {
    /// The session.
    pub native_session_id: String,
    /// Claude Code's own session id.
    pub claude_session_id: String,
    /// Where it stands.
    pub status: Status,
    /// Counts the durable changes.
    pub revision: u64,
    /// Whether this call was made before with the same key.
    pub replay: bool,
    /// Always `chatgpt-main`.
    pub route: &'static str,
    /// Always `none`.
    pub fallback: &'static str,
    /// The lease to pass with the next call.
    pub lease_id: String,
    /// When it ends unless a call renews it; RFC 3339, UTC.
    pub lease_expires_at: String,
    /// The name that was given at the start.
    pub session_label: Option<String>,
    /// What the session may do.
    pub capability_profile: Profile,
    /// Whether it may delegate.
    pub subagent_policy: SubagentPolicy,
    /// Where delegated tasks go.
    pub deepseek_route: Option<DeepseekRoute>,
    /// The delegated tasks.
    pub deepseek_subsessions: Vec<SubsessionView>,
    /// The delegated task that has the right to write.
    pub active_deepseek_subsession_id: Option<String>,
    /// The pinned skills, without their texts.
    pub skill_snapshot: Vec<SkillView>,
    /// Where the session writes and starts commands.
    pub working_directory: String,
    /// The directory that was asked for.
    pub source_directory: String,
    /// How the two relate.
    pub workspace: WorkspaceView,
    /// What the session's processes can reach.
    pub network_boundary: NetworkBoundary,
    /// Whether a live Claude Code is attached.
    pub runtime_attached: bool,
    /// Whether `native_session_recover` must acknowledge something first.
    pub recovery_required: bool,
    /// The newest run.
    pub current_run: Option<RunView>,
    /// The turn that waits for a reply.
    pub pending_turn: Option<PendingTurn>,
    /// The stop that was asked for.
    pub stop_request: Option<StopRequestView>,
    /// True when nothing can go on from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<bool>,
    /// The newest run's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_result: Option<LastResult>,
    /// Why the last start failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_error: Option<LaunchError>,
    /// Keep it: `native_session_recover` needs it. Only in the result of `native_session_start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_token: Option<String>,
    /// The Claude Code that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude_code: Option<ClaudeCodeView>,
    /// Which tool to call next, and with what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The fixed route of delegated tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct DeepseekRoute {
    /// Always `flash`.
    pub sonnet: &'static str,
    /// Always `flash`.
    pub opus: &'static str,
    /// Always `pro`.
    pub fable: &'static str,
}

/// A safe summary of a delegated task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SubsessionView {
    /// The task's id.
    pub id: String,
    /// starting, running, finished, failed, stopped or lost.
    pub state: String,
    /// The tier that was asked for.
    pub model: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Requests that were sent to its model; known once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Why it gave no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The beginning of its final text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The files that it changed.
    pub files_changed: Vec<FileChangeView>,
}

/// A file that a delegated task changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct FileChangeView {
    /// Its path.
    pub path: String,
    /// SHA-256 before the first change; none where the file is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256_before: Option<String>,
    /// SHA-256 after the last one.
    pub sha256_after: String,
}

/// A pinned skill, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SkillView {
    /// The id in the allowlist.
    pub skill_id: String,
    /// SHA-256 of the whole normalised text.
    pub content_sha256: String,
    /// SHA-256 of the instructions that are shown.
    pub body_sha256: String,
    /// Their size in bytes.
    pub body_bytes: u64,
}

/// How the session's root relates to the directory that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkspaceView {
    /// `read_only`, `direct` or `worktree`.
    pub kind: &'static str,
    /// The session's root.
    pub root: String,
    /// The worktree's branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<String>,
    /// What the owner should know.
    pub notes: Vec<String>,
}

/// What the session's processes can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct NetworkBoundary {
    /// What Claude Code reaches.
    pub claude: String,
    /// What commands reach.
    pub commands: String,
    /// What enforces it; empty where nothing does.
    pub enforced_by: Vec<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RunView {
    /// The run.
    pub run_id: String,
    /// Its number, from 1.
    pub sequence: u32,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// How it stands or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
}

/// What ChatGPT answers next.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct PendingTurn {
    /// Pass it with the reply.
    pub turn_id: String,
    /// The run it belongs to.
    pub run_id: String,
    /// Its number in the run, from 1.
    pub sequence: u32,
    /// In a run's first turn: the prompt, its first 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// In a run's first turn: the pinned instructions. Instructions only: they change nothing that is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_instructions: Option<Vec<SkillInstructions>>,
    /// The results of the previous reply's calls, in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_results: Option<Vec<ToolResult>>,
    /// In a run's first turn: the tools that a reply may call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolView>>,
    /// Later: the turn that named them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_same_as: Option<String>,
    /// Bounds of the reply and its results.
    pub limits: TurnLimits,
    /// After a lost run: what became of its actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered_actions: Option<Vec<RecoveredAction>>,
}

/// A pinned skill's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SkillInstructions {
    /// The skill.
    pub skill_id: String,
    /// What they are, and what they are not.
    pub note: &'static str,
    /// Its instructions.
    pub instructions: String,
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ToolResult {
    /// The action.
    pub action_id: String,
    /// The tool.
    pub tool: String,
    /// Whether it failed.
    pub is_error: bool,
    /// What it gave.
    pub content: String,
}

/// A tool that a reply may call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its input.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub input_schema: Value,
}

/// Bounds of a reply and its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct TurnLimits {
    /// Bytes of a reply.
    pub reply_bytes: u64,
    /// Bytes of one result.
    pub result_bytes: u64,
    /// Bytes of a turn.
    pub turn_bytes: u64,
}

/// What became of an action of a lost run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RecoveredAction {
    /// The action.
    pub action_id: String,
    /// The tool.
    pub tool: String,
    /// What is known of its effect.
    pub outcome: Resolution,
    /// Its result, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// A run's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct LastResult {
    /// The run.
    pub run_id: String,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The final answer, or why there is none.
    pub text: String,
}

/// Why a start failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct LaunchError {
    /// The stable code.
    #[schemars(with = "String")]
    pub code: ErrorCode,
    /// What failed and what mends it.
    pub message: String,
}

/// A stop that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct StopRequestView {
    /// The client's key; none where the owner stopped the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// RFC 3339, UTC.
    pub requested_at: String,
}

/// The Claude Code that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ClaudeCodeView {
    /// What `claude --version` said.
    pub version: String,
    /// Whether this release of the gateway was verified with it.
    pub verified: bool,
}
