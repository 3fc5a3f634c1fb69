//! An action: one tool call of a reply, from its authorization to the moment before its effect.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    canonical::CanonicalJson,
    digest::{Digest, hex},
    id::{ActionId, SubsessionId},
    timestamp::Timestamp,
    tool::ToolName,
};

/// A tool call that a recorded reply holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Minted by the gateway when the reply is accepted.
    pub action_id: ActionId,
    /// The tool.
    pub tool: ToolName,
    /// Its input, checked against the tool's schema.
    pub input: CanonicalJson,
}

/// What an action is about to do, with everything that recovery needs to tell whether it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The action.
    pub action_id: ActionId,
    /// When its preparation was done.
    pub prepared_at: Timestamp,
    /// The effect that follows once this is durable.
    pub effect: Effect,
}

/// An effect on the world outside the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// A file gets new content.
    Write(PreparedWrite),
    /// A command runs. What it did can't be told afterwards.
    Command {
        /// The exact arguments.
        argv: Vec<String>,
        /// Where it runs.
        cwd: PathBuf,
    },
    /// A sub-session starts.
    Subsession {
        /// The sub-session.
        subsession_id: SubsessionId,
    },
    /// A file is taken away: the undo of the action that made it.
    Remove(PreparedRemoval),
}

/// A file that is about to be taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedRemoval {
    /// The file, relative to the session's root.
    pub path: PathBuf,
    /// Digest of the content it has.
    pub before: Digest,
    /// Bytes it has.
    pub bytes: u64,
    /// Its permission bits, with which it is put back where the removal is undone.
    pub mode: u32,
    /// The name that it gets, in its directory, before it goes.
    pub temporary: String,
    /// Directories that go with it where nothing else is in them, relative to the root, outermost first.
    pub directories: Vec<PathBuf>,
}

/// A file's change, staged beside it and not yet in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedWrite {
    /// The file, relative to the session's root.
    pub path: PathBuf,
    /// Digest of the content it has; none where it does not exist.
    pub before: Option<Digest>,
    /// Digest of the content it gets.
    pub after: Digest,
    /// Bytes it has and gets.
    pub bytes: (u64, u64),
    /// Name of the staged file: in the file's directory, or, where that is still to be made, in the directory that the
    /// first of `made_directories` is made in.
    pub temporary: String,
    /// Directories that the write makes on its way, relative to the root, outermost first. Staging makes none.
    pub made_directories: Vec<PathBuf>,
}

/// The name of an action's staged file: it follows from the id alone, so that it is known whatever died when.
#[must_use]
pub fn temporary_name(action: ActionId) -> String {
    format!(".gateway-{}.tmp", hex(action.as_bytes()))
}

/// What recovery found out about an action that has no receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Resolution {
    /// Its effect is there.
    Applied,
    /// Its effect is not there.
    NotApplied,
    /// It can't be known.
    Indeterminate,
    /// It was authorized and never begun.
    NotStarted,
}
