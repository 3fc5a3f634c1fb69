//! What `gatewayctl` asks the supervisor: frames of JSON, so that a newer one can talk to an older one.

use serde::{Deserialize, Serialize};

use crate::{failure::Failure, id::SessionId};

/// A request of the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum ControlRequest {
    /// How the gateway stands.
    Status,
    /// Every session, newest first.
    Sessions,
    /// One session in full.
    Show {
        /// The session.
        session: SessionId,
    },
    /// The worktrees that sessions made.
    Worktrees,
    /// Removes the worktree of a session that has ended, where nothing would be lost.
    RemoveWorktree {
        /// The session.
        session: SessionId,
    },
    /// Ends a session.
    Stop {
        /// The session.
        session: SessionId,
        /// Why, in the owner's words.
        reason: Option<String>,
    },
    /// Puts back what stood before one change of a session.
    Undo {
        /// The session.
        session: SessionId,
        /// The change's action id, or its unique beginning.
        action: String,
    },
}

/// The answer to a [`ControlRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ControlAnswer {
    /// It was done; the object that `--json` prints.
    Done {
        /// The object.
        body: serde_json::Value,
    },
    /// It was not.
    Refused {
        /// Why.
        failure: Failure,
    },
}
