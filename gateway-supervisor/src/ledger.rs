//! The ledger: one append-only journal per session, and an index that is rebuilt from them.
//!
//! How a session uses it:
//! 1. [`Ledger::create`] makes the journal with the session's first records; the session may be named to anybody only then.
//! 2. [`Ledger::append`] gives every further record back as a [`Durable`]; the state is folded from these alone, and only a
//!    [`Durable`] gives the acknowledgement that a worker waits for.
//! 3. [`Ledger::describe`] tells the list what the records now add up to. It costs nothing, and where it is forgotten or lost
//!    the journal is read again at the next start.
//! 4. After a restart [`Ledger::sessions`] lists everything from the index; [`Ledger::load`] reads one session back.
//!
//! Invariant: a record is acknowledged after its journal was synced, never before.
//! Invariant: the index is never asked for what is true, only for where things are; all of it can be lost.

pub mod durable;
pub mod error;
pub mod record;
pub mod summary;
mod writer;

use std::path::Path;

use protocol::id::{IdempotencyKey, SessionId};

pub use self::{
    durable::Durable,
    error::{Damage, LedgerError, Newer},
    record::Record,
    summary::{Row, Summary, Trouble},
};

/// What a session's records add up to.
pub type Summarise = fn(&[Record]) -> Summary;

/// The ledger of this supervisor. Clones are handles on the same one.
#[derive(Debug, Clone)]
pub struct Ledger {}

impl Ledger {
    /// Opens the ledger of `state_dir`, and makes it where there is none: takes the lock, lists the sessions, cuts torn tails,
    /// and rereads with `summarise` the journals that the index is behind on. Blocks.
    ///
    /// # Errors
    /// Where another supervisor holds it, the directory is not this user's own, or the disk does not take a file. Trouble with
    /// one session is not an error here: its [`Row`] says it.
    pub fn open(state_dir: &Path, summarise: Summarise) -> Result<Self, LedgerError> {
        let _ = (state_dir, summarise);
        Err(LedgerError::Closed)
    }

    /// Every session, the newest first.
    #[must_use]
    pub fn sessions(&self) -> Vec<Row> {
        Vec::new()
    }

    /// One session of the list.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<Row> {
        let _ = id;
        None
    }

    /// The session that was started with this key. The digest of the call's input is in its [`Summary`].
    #[must_use]
    pub fn session_of_start_key(&self, key: &IdempotencyKey) -> Option<SessionId> {
        let _ = key;
        None
    }

    /// All records of a session, in order. Reads and checks the whole journal: blocks.
    ///
    /// # Errors
    /// Where there is no such session, or its journal is damaged, newer than this release, or can't be read.
    pub fn load(&self, id: SessionId) -> Result<Vec<Durable<Record>>, LedgerError> {
        Err(LedgerError::NoSession(id))
    }

    /// Makes a session with its first records; the first of all is its creation. Finishes even if the caller goes away.
    ///
    /// # Errors
    /// Where the id or the key of the start is taken, or the disk does not take it: then there is no such session.
    pub async fn create(
        &self,
        id: SessionId,
        records: Vec<Record>,
    ) -> Result<Vec<Durable<Record>>, LedgerError> {
        let _ = (id, records);
        Err(LedgerError::Closed)
    }

    /// Adds records to a session, all or none. Finishes even if the caller goes away.
    ///
    /// # Errors
    /// Where there is no such session, its journal takes nothing more, or the disk does not take it.
    pub async fn append(
        &self,
        id: SessionId,
        records: Vec<Record>,
    ) -> Result<Vec<Durable<Record>>, LedgerError> {
        let _ = (id, records);
        Err(LedgerError::Closed)
    }

    /// Tells the list what the session's records add up to.
    pub fn describe(&self, id: SessionId, summary: Summary) {
        let _ = (id, summary);
    }

    /// Writes what is waiting, and lets go of the state directory. Later calls are answered with [`LedgerError::Closed`]. Blocks.
    pub fn close(&self) {}
}
