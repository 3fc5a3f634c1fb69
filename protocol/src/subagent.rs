//! Delegated sub-sessions: the fixed route and their states.

use serde::{Deserialize, Serialize};

use crate::{
    action::{Action, Prepared, Resolution},
    digest::Digest,
    id::{ActionId, SubsessionId},
    receipt::Receipt,
    recorded::Recordable,
};

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
    /// Its name in every text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sonnet => "sonnet",
            Self::Opus => "opus",
            Self::Fable => "fable",
        }
    }

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

/// One fact of a sub-session. Append-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubsessionEvent {
    /// It calls a tool, and the call is one that it may make.
    Called(Action),
    /// An action of it is about to have its effect.
    Prepared(Prepared),
    /// An action of it is done.
    Receipt(Receipt),
    /// It is over; nothing of its process tree is left.
    Ended(SubsessionEnd),
    /// What an interrupted action of it did was found out.
    Resolved {
        /// The action.
        action_id: ActionId,
        /// What was found.
        resolution: Resolution,
        /// How it was found, for people.
        detail: String,
    },
}

/// How a sub-session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsessionEnd {
    /// Finished, failed, stopped or lost.
    pub state: SubsessionState,
    /// Why it gave no answer.
    pub reason: Option<String>,
    /// Its final text, its first [`crate::limits::SUBSESSION_TEXT_BYTES`].
    pub text: Option<String>,
    /// Requests that were sent to its model.
    pub turns: u32,
}

impl Recordable for Action {}
impl Recordable for SubsessionEnd {}

impl SubsessionEvent {
    /// The digest that its acknowledgement names.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::Called(action) => action.record_digest(),
            Self::Prepared(prepared) => prepared.record_digest(),
            Self::Receipt(receipt) => receipt.record_digest(),
            Self::Ended(end) => end.record_digest(),
            Self::Resolved { .. } => Digest::of(&serde_json::to_vec(self).unwrap_or_default()),
        }
    }
}

/// What is told of a sub-session: nothing of its task, its key or its inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsessionSummary {
    /// Its id.
    pub id: SubsessionId,
    /// How it stands.
    pub state: SubsessionState,
    /// The tier that was asked for.
    pub model: Tier,
    /// Requests that were sent to its model; known once it is over.
    pub turns: Option<u32>,
    /// Why it gave no answer.
    pub reason: Option<String>,
    /// Its final text.
    pub text: Option<String>,
    /// The files that it changed, in the order of their paths.
    pub files: Vec<ChangedFile>,
}

/// A file that a sub-session changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Canonical absolute path.
    pub path: String,
    /// What stood there before its first change; none where the file is new.
    pub before: Option<Digest>,
    /// What it left there.
    pub after: Digest,
}

impl SubsessionState {
    /// Its name in every text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
    }

    /// Whether it can still act.
    #[must_use]
    pub const fn active(self) -> bool {
        match self {
            Self::Starting | Self::Running => true,
            Self::Finished | Self::Failed | Self::Stopped | Self::Lost => false,
        }
    }
}
