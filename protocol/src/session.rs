//! The states of a session and the outcomes of a run, as people and ChatGPT see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Status {
    /// A new process is coming up; its first turn is not there yet.
    Starting,
    /// A turn waits for ChatGPT's reply.
    WaitingForGpt,
    /// Claude Code is at work between two turns.
    Running,
    /// The run is over; `continue` is possible.
    Idle,
    /// A stop was recorded and is being carried out.
    Stopping,
    /// Ended for good.
    Stopped,
    /// The lease ran out; `recover` gives a new one.
    LeaseExpired,
    /// The last start failed; `launch_error` says why.
    Failed,
    /// What an interrupted action did can't be known; `recover` acknowledges it.
    RecoveryRequired,
}

/// How a run stands or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RunOutcome {
    /// Not over.
    Running,
    /// ChatGPT answered with text alone.
    Finished,
    /// The process that carried it is gone.
    Lost,
    /// Claude Code ended it with an error.
    Failed,
    /// A stop ended it.
    Stopped,
}

impl Status {
    /// The name on the MCP surface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::WaitingForGpt => "waiting_for_gpt",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::LeaseExpired => "lease_expired",
            Self::Failed => "failed",
            Self::RecoveryRequired => "recovery_required",
        }
    }
}

impl RunOutcome {
    /// The name on the MCP surface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Lost => "lost",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}
