//! What the ledger answers when it can't do what it was asked.
//!
//! Invariant: no error here is met by going on without a record.

use std::{io, path::PathBuf};

use protocol::{failure::ErrorCode, id::SessionId};

/// Why the ledger did not do something.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// Another supervisor holds the state directory.
    #[error(
        "opening the ledger: another supervisor holds {path}; use that one, or stop it first",
        path = lock.display()
    )]
    AlreadyRunning {
        /// The lock.
        lock: PathBuf,
    },
    /// The state directory is not this user's own.
    #[error("opening the ledger in {path}: {reason}", path = path.display())]
    Refused {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it and how to mend it.
        reason: String,
    },
    /// The file system failed, and nothing was recorded. The same call may succeed later.
    #[error("{attempt} {path}: {reason}", path = path.display())]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        reason: String,
        /// The kind of it.
        kind: io::ErrorKind,
    },
    /// The session's journal failed before and takes nothing more until the supervisor starts again.
    #[error(
        "recording for {session}: its journal failed before ({reason}); mend the disk and restart the gateway"
    )]
    Poisoned {
        /// The session.
        session: SessionId,
        /// The first failure.
        reason: String,
    },
    /// The session's journal is damaged.
    #[error("{0}")]
    Damaged(#[from] Damage),
    /// A newer release wrote to the session's journal: it is not touched.
    #[error("{0}")]
    NewerRelease(#[from] Newer),
    /// There is no such session.
    #[error("looking for {0} in the ledger: there is no such session")]
    NoSession(SessionId),
    /// There is such a session already.
    #[error("creating {0}: the session is in the ledger already")]
    Exists(SessionId),
    /// The key of the start belongs to a session already.
    #[error("creating a session: {0} was started with the same idempotency key")]
    StartKeyTaken(SessionId),
    /// The first record of a session is not its creation, or names another session.
    #[error("creating {0}: its first record does not say so")]
    NotACreation(SessionId),
    /// A record is larger than a journal takes.
    #[error("recording for {session}: a record of {bytes} bytes is too large")]
    TooLarge {
        /// The session.
        session: SessionId,
        /// Bytes of the record.
        bytes: usize,
    },
    /// The ledger was closed.
    #[error("the ledger is closed because the gateway is going down; call again after its restart")]
    Closed,
}

/// A journal that does not say what it was made to say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "reading the journal of {session}: {what} at record {record}, byte {byte}; restore the file from a backup, or start another session"
)]
pub struct Damage {
    /// The session.
    pub session: SessionId,
    /// The record, from 1; 0 is the journal's header.
    pub record: u64,
    /// Where it begins in the file.
    pub byte: u64,
    /// What is wrong.
    pub what: String,
}

/// A journal that only a newer release understands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "reading the journal of {session}: record {record} was written by a newer release ({what}); install that release to go on with the session"
)]
pub struct Newer {
    /// The session.
    pub session: SessionId,
    /// The first record that is not understood, from 1; 0 is the journal's header.
    pub record: u64,
    /// What is not understood.
    pub what: String,
}

impl LedgerError {
    /// The failure of a file operation.
    pub(super) fn io(attempt: &'static str, path: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::Io { attempt, path: path.into(), reason: error.to_string(), kind: error.kind() }
    }

    /// The public code of it.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyRunning { .. }
            | Self::Refused { .. }
            | Self::Io { .. }
            | Self::Poisoned { .. }
            | Self::Damaged(_)
            | Self::NewerRelease(_) => ErrorCode::LedgerUnavailable,
            Self::NoSession(_) => ErrorCode::SessionNotFound,
            Self::StartKeyTaken(_) => ErrorCode::IdempotencyConflict,
            Self::TooLarge { .. } => ErrorCode::ReplyTooLarge,
            Self::Closed => ErrorCode::ShuttingDown,
            Self::Exists(_) | Self::NotACreation(_) => ErrorCode::Internal,
        }
    }

    /// Whether the same call may succeed later without a restart.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Closed)
    }
}
