//! What a session may do, fixed at its birth.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The capability profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Profile {
    /// Read, find, search, and run commands that can write nothing outside the session's scratch.
    #[default]
    ReadOnly,
    /// The same, and exact edits in the real directory.
    DirectWrite,
    /// The same, and exact edits in a Git worktree that the gateway makes and keeps.
    WorktreeWrite,
}

/// Whether the session may delegate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SubagentPolicy {
    /// No delegation.
    #[default]
    None,
    /// ChatGPT may start one DeepSeek sub-session at a time, by name. Needs [`Profile::WorktreeWrite`].
    DeepseekExplicit,
}

impl Profile {
    /// The name on the MCP surface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::DirectWrite => "direct_write",
            Self::WorktreeWrite => "worktree_write",
        }
    }

    /// Whether the session may change files below its root.
    #[must_use]
    pub const fn writes(self) -> bool {
        match self {
            Self::ReadOnly => false,
            Self::DirectWrite | Self::WorktreeWrite => true,
        }
    }
}

impl SubagentPolicy {
    /// The name on the MCP surface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::DeepseekExplicit => "deepseek_explicit",
        }
    }
}
