//! What the list of sessions says of each, without its journal being read.

use std::path::PathBuf;

use protocol::{
    digest::Digest,
    id::{IdempotencyKey, SessionId},
    session::Status,
    timestamp::Timestamp,
};
use serde::{Deserialize, Serialize};

use super::error::{Damage, Newer};

/// A session in short: what its records add up to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many of the session's records it covers. The ledger rereads a journal that holds more.
    pub records: u64,
    /// Where the session stands.
    pub status: Status,
    /// The client's name for it.
    pub label: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its newest record was made.
    pub updated_at: Timestamp,
    /// Where it works.
    pub working_directory: PathBuf,
    /// Whether a worker of it may be alive, or an undo is open: such a session is looked after at every start of the supervisor.
    pub live: bool,
    /// The key of the `start` that made it.
    pub idempotency_key: IdempotencyKey,
    /// Digest of that call's input.
    pub input: Digest,
    /// Whether nothing can go on from here.
    pub terminal: bool,
}

/// One session in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The session.
    pub session_id: SessionId,
    /// What is known of it. Where there is trouble: what was known before, if anything.
    pub summary: Option<Summary>,
    /// Why its journal takes nothing more.
    pub trouble: Option<Trouble>,
}

/// Why a session can be looked at and no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Its journal is damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A newer release went on with it.
    #[error(transparent)]
    NewerRelease(#[from] Newer),
    /// Its journal failed while it was written. It can still be read.
    #[error("the session's journal failed ({0}); mend the disk and restart the gateway")]
    Poisoned(String),
    /// Its journal can't be read.
    #[error("reading the journal of the session: {0}; make it readable and restart the gateway")]
    Unreadable(String),
}
