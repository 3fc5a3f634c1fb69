//! A receipt: what an action did. It is durable before anybody sees its result, and it is the only source of that result.

use serde::{Deserialize, Serialize};

use crate::{digest::Digest, failure::ToolErrorCode, id::ActionId, timestamp::Timestamp};

/// How the note in a write's result begins where the disk did not take the versions before and after: such a change is whole,
/// and can't be shown or undone.
pub const NOT_KEPT: &str = "its versions could not be kept";

/// The recorded outcome of one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The action.
    pub action_id: ActionId,
    /// When it began and ended.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The error's code where it failed.
    pub error: Option<ToolErrorCode>,
    /// Whether the result is to be read as an error. A command that exits 1 is one without a code.
    pub is_error: bool,
    /// What the model reads: at most `limits::RECEIPT_BYTES`.
    pub content: String,
    /// What the gateway itself remembers of it.
    pub facts: Facts,
}

/// What a receipt proves, beyond its text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Facts {
    /// Nothing more.
    #[default]
    None,
    /// The session has seen exactly this content of a file.
    Observed(FileVersion),
    /// The session changed a file.
    Wrote {
        /// What stood there; none where the file is new.
        before: Option<Digest>,
        /// What stands there now.
        after: FileVersion,
    },
    /// A command ran.
    Ran(CommandRun),
    /// A file was taken away, with the content that stood there.
    Removed(FileVersion),
}

/// One content of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Canonical absolute path.
    pub path: String,
    /// Digest of the whole content.
    pub sha256: Digest,
    /// Its size.
    pub bytes: u64,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// How it ended.
    pub end: CommandEnd,
    /// Bytes it wrote to stdout.
    pub stdout_bytes: u64,
    /// Bytes it wrote to stderr.
    pub stderr_bytes: u64,
    /// Bytes of both that the result does not show.
    pub cut_bytes: u64,
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandEnd {
    /// It exited with this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its time was over, after this many seconds.
    TimedOut(u64),
    /// A stop ended it.
    Stopped,
    /// It did not start.
    NotStarted,
}
