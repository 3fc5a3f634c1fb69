//! Delegated sub-sessions: the fixed route and their states.

use serde::{Deserialize, Serialize};

/// The tier that ChatGPT names when it delegates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Everyday work.
    Sonnet,
    /// Harder work.
    Opus,
    /// The hardest work.
    Fable,
}

/// The kind of model a tier is sent to. There is no other route and no fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// The fast model.
    Flash,
    /// The strong model.
    Pro,
}

impl Tier {
    /// Where this tier goes.
    #[must_use]
    pub const fn route(self) -> Route {
        match self {
            Self::Sonnet | Self::Opus => Route::Flash,
            Self::Fable => Route::Pro,
        }
    }
}

/// How a sub-session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubsessionState {
    /// Its process is coming up.
    Starting,
    /// At work.
    Running,
    /// Ended with an answer.
    Finished,
    /// Ended with an error.
    Failed,
    /// Ended by a stop.
    Stopped,
    /// Its process is gone without an end.
    Lost,
}

impl SubsessionState {
    /// Whether it can still act.
    #[must_use]
    pub const fn active(self) -> bool {
        match self {
            Self::Starting | Self::Running => true,
            Self::Finished | Self::Failed | Self::Stopped | Self::Lost => false,
        }
    }
}
