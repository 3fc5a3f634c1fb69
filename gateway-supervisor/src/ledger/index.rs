//! The index on the disk: where each journal ended and what its session added up to, so that a start need not read journals.
//!
//! A pair of the database is the 16 bytes of a session's id and an [`Entry`] as JSON.
//!
//! Invariant: an entry is written only after its journal was synced up to it; so the index is behind, never ahead.
//! Invariant: after the first error the database is not used again; the ledger goes on without it.
#![expect(clippy::disallowed_methods, reason = "the index is where sled is spoken to")]

use std::{collections::HashMap, fs::File, path::Path};

use protocol::{digest::Digest, id::SessionId};
use serde::{Deserialize, Serialize};

use super::{guard, journal::reader::Position, summary::Summary};

/// Largest value: larger ones go to files that sled never syncs. A session whose entry is larger is read from its journal.
const VALUE_BYTES: usize = 4096;

/// Counts up when summaries come to mean something else: older ones are made again from the journals.
const EDITION: u32 = 1;

/// What the index remembers of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Where the journal durably ended.
    #[serde(flatten)]
    pub anchor: Anchor,
    /// When the journal was last changed then: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// What the session added up to then.
    pub summary: Option<Summary>,
}

/// The part of an entry that every release understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Anchor {
    edition: u32,
    records: u64,
    length: u64,
    hash: Digest,
}

impl From<Position> for Anchor {
    fn from(at: Position) -> Self {
        Self { edition: EDITION, records: at.records, length: at.length, hash: at.hash }
    }
}

impl Anchor {
    /// Where the journal durably ended.
    pub(super) const fn position(&self) -> Position {
        Position { records: self.records, length: self.length, hash: self.hash }
    }
}

impl Entry {
    fn decode(value: &[u8]) -> Option<Self> {
        match serde_json::from_slice::<Self>(value) {
            Ok(entry) if entry.anchor.edition == EDITION => Some(entry),
            // Another release wrote it: where the journal ended stays true, the rest is made anew.
            Ok(_) | Err(_) => {
                let anchor = serde_json::from_slice(value).ok()?;
                Some(Self { anchor, modified: (0, 0), summary: None })
            }
        }
    }

    /// The entry's value in the database; none where it is too large for one.
    fn encode(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok().filter(|value| value.len() <= VALUE_BYTES)
    }
}

/// The database, as long as it works.
#[derive(Debug)]
pub(super) enum Index {
    /// It works.
    Working(Database),
    /// It failed once, or could not be opened. Everything is in memory, and read from the journals at the next start.
    Lost,
}

/// A working database.
pub(super) struct Database {
    sled: sled::Db,
    /// Our own handle on its file: sled's flush does not reach the disk.
    file: File,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

/// What an index said when it was opened.
pub(super) type Entries = HashMap<SessionId, Entry>;

impl Index {
    /// Opens the index in `path` and reads all of it.
    pub(super) fn open(path: &Path) -> (Self, Entries) {
        let opened = guard::open(path).and_then(|(sled, pairs)| {
            let file = File::open(path.join("db")).map_err(|error| error.to_string())?;
            Ok((Self::Working(Database { sled, file }), pairs))
        });
        let (index, pairs) = opened.unwrap_or_else(|reason| {
            tracing::error!(%reason, "the ledger goes on without its index; starts are slower until the cause is gone");
            (Self::Lost, Vec::new())
        });
        let entries = pairs
            .into_iter()
            .filter_map(|(key, value)| {
                let id = SessionId::from_bytes(key.try_into().ok()?);
                Some((id, Entry::decode(&value)?))
            })
            .collect();
        (index, entries)
    }

    /// Writes entries durably, and forgets sessions that are gone.
    pub(super) fn save(&mut self, entries: &[(SessionId, Entry)], gone: &[SessionId]) {
        let Self::Working(database) = self else { return };
        if let Err(refusal) = guard::caught(|| database.save(entries, gone)) {
            tracing::error!(
                reason = refusal.into_reason(),
                "the index failed; the ledger goes on without it"
            );
            let Self::Working(database) = std::mem::replace(self, Self::Lost) else { return };
            // Dropping a failed database can hang; the process ends without it.
            std::mem::forget(database);
        }
    }

    /// Lets go of the database.
    pub(super) fn close(self) {
        match self {
            Self::Working(database) => guard::close(database.sled),
            Self::Lost => {}
        }
    }
}

impl Database {
    fn save(&self, entries: &[(SessionId, Entry)], gone: &[SessionId]) -> Result<(), sled::Error> {
        for (id, entry) in entries {
            match entry.encode() {
                Some(value) => self.sled.insert(id.as_bytes(), value)?,
                None => self.sled.remove(id.as_bytes())?,
            };
        }
        for id in gone {
            self.sled.remove(id.as_bytes())?;
        }
        self.sled.flush()?;
        self.file.sync_all()?;
        Ok(())
    }
}
