//! Keeps the index up with the journals, on a thread of its own and off everybody's way.
//!
//! Invariant: sleeps until something changed; then waits a little, so that a busy ledger is indexed at most once a second.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use protocol::id::SessionId;

use super::{
    index::{Entry, Index},
    journal::NAME,
    table::{Known, Table},
};

/// How far the index may be behind a ledger that is written to all the time. What it is behind on is read again after a crash.
const PAUSE: Duration = Duration::from_secs(1);

/// What wakes the keeper. The end of the channel ends it, after a last look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed;

/// The thread's world.
#[derive(Debug)]
pub(super) struct Keeper {
    /// The index.
    pub index: Index,
    /// Folder of the sessions.
    pub sessions: PathBuf,
    /// What there is to index.
    pub table: Arc<Table>,
}

impl Keeper {
    /// Starts the thread. It ends when nobody can send to `changes` any more.
    pub(super) fn start(self, changes: Receiver<Changed>) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name("ledger-index".to_owned()).spawn(move || self.run(&changes))
    }

    fn run(mut self, changes: &Receiver<Changed>) {
        while changes.recv().is_ok() {
            // Nothing is sent again before the changes were taken, so this wakes early only at the end.
            let ended = matches!(changes.recv_timeout(PAUSE), Err(RecvTimeoutError::Disconnected));
            self.save();
            if ended {
                break;
            }
        }
        self.save();
        self.index.close();
    }

    fn save(&mut self) {
        let changed = self.table.take_unindexed();
        let entries: Vec<_> = changed
            .into_iter()
            .filter_map(|(id, known)| Some((id, entry(&self.sessions, id, known)?)))
            .collect();
        if !entries.is_empty() {
            self.index.save(&entries, &[]);
        }
    }
}

/// What the index is to say of a session; nothing where its journal is in trouble or is just being written.
fn entry(sessions: &Path, id: SessionId, known: Known) -> Option<Entry> {
    let position = known.position.filter(|_| known.trouble.is_none())?;
    let stat = stat(sessions, id).ok()?;
    (stat.length == position.length).then(|| Entry {
        anchor: position.into(),
        modified: stat.modified,
        // One that is behind says so itself, and is worth something should the journal be damaged.
        summary: known.summary,
    })
}

/// What tells without reading it whether a journal changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// Its bytes.
    pub length: u64,
    /// When it was changed: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
}

/// Looks at a session's journal from outside.
pub(super) fn stat(sessions: &Path, id: SessionId) -> io::Result<Stat> {
    let found = fs::metadata(sessions.join(id.to_string()).join(NAME))?;
    Ok(Stat { length: found.len(), modified: (found.mtime(), found.mtime_nsec()) })
}
