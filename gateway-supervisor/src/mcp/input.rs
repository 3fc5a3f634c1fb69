//! The inputs of the six tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use protocol::profile::{Profile, SubagentPolicy};

/// One pinned skill.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct SkillContext {
    /// The skill's id in the owner's allowlist.
    pub skill_id: String,
    /// The whole text of its SKILL.md.
    pub content: String,
}

impl std::fmt::Debug for SkillContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SkillContext").field("skill_id", &self.skill_id).finish_non_exhaustive()
    }
}

/// One tool call of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ToolCall {
    /// A tool named in the pending turn's `tools`.
    pub name: String,
    /// Its input, as that tool's `input_schema` says.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub input: Value,
}

/// Input of `native_session_start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartInput {
    /// What Claude Code is to do, in plain words, 1 byte to 64 KiB. It becomes the first message of the conversation that you then answer.
    pub prompt: String,
    /// A fresh random key for this start, such as a UUID; the same key with the same input returns the same session. At most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub idempotency_key: String,
    /// Absolute path of an existing directory on the user's computer, such as /home/ann/project: where the session works.
    pub working_directory: String,
    /// `read_only` (default), `direct_write` or `worktree_write`.
    #[serde(default)]
    pub capability_profile: Option<Profile>,
    /// `none` (default), or `deepseek_explicit`, which needs `worktree_write`.
    #[serde(default)]
    pub subagent_policy: Option<SubagentPolicy>,
    /// Pinned skills, at most 8.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub skill_contexts: Option<Vec<SkillContext>>,
    /// A name for people, at most 200 characters.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub session_label: Option<String>,
    /// Seconds to wait for the first turn, 0 to 50 (default 30).
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    pub wait_seconds: Option<u64>,
}

/// Input of `native_session_continue`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContinueInput {
    /// The session's id, from `native_session_start`.
    pub native_session_id: String,
    /// The newest `lease_id` that a result of this session showed.
    pub lease_id: String,
    /// The next prompt, 1 byte to 64 KiB.
    pub prompt: String,
    /// A fresh random key for this prompt. At most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub idempotency_key: String,
    /// Seconds to wait for the first turn, 0 to 50 (default 30).
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    pub wait_seconds: Option<u64>,
}

/// Input of `native_session_recover`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecoverInput {
    /// The session's id, from `native_session_start`.
    pub native_session_id: String,
    /// The token that `native_session_start` returned.
    pub recovery_token: String,
    /// A fresh random key for this recovery. At most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub recovery_id: String,
    /// Seconds to wait for a turn, 0 to 50 (default 0).
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    pub wait_seconds: Option<u64>,
}

/// Input of `native_session_reply_and_wait`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyInput {
    /// The session's id, from `native_session_start`.
    pub native_session_id: String,
    /// The newest `lease_id` that a result of this session showed.
    pub lease_id: String,
    /// `pending_turn.turn_id`: the turn that this answers.
    pub turn_id: String,
    /// A fresh random key for this reply; send the same one again if no answer came. At most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub reply_id: String,
    /// Text; without tool calls it is the final answer and ends the run.
    #[serde(default)]
    pub text: Option<String>,
    /// Tool calls, 1 to 32, run in this order.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Seconds to wait for the next turn, 0 to 50 (default 30).
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    pub wait_seconds: Option<u64>,
}

/// Input of `native_session_status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusInput {
    /// The session's id, from `native_session_start`.
    pub native_session_id: String,
    /// The newest `lease_id` that a result of this session showed.
    pub lease_id: String,
    /// Seconds to wait for a change, 0 to 50 (default 0).
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    pub wait_seconds: Option<u64>,
}

/// Input of `native_session_stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopInput {
    /// The session's id, from `native_session_start`.
    pub native_session_id: String,
    /// The newest `lease_id` that a result of this session showed.
    pub lease_id: String,
    /// A fresh random key for this stop. At most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub request_id: String,
    /// Why, at most 200 characters.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub reason: Option<String>,
}
