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

pub(crate) mod blobs;
pub(crate) mod changes;
pub mod durable;
pub mod error;
mod guard;
mod index;
pub mod inspect;
mod journal;
mod keeper;
pub mod record;
#[cfg(test)]
mod sample;
mod state_dir;
pub mod summary;
mod survey;
mod sync;
mod table;
mod writer;

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
};

use protocol::id::{IdempotencyKey, SessionId};
use tokio::sync::oneshot;

use self::{
    index::Index,
    journal::reader::{Position, Reader, Stop},
    keeper::Keeper,
    state_dir::StateDir,
    sync::{SyncFile, Syncers},
    table::Table,
    writer::{Kind, Request, Writer},
};

pub use self::{
    durable::Durable,
    error::{Damage, LedgerError, Newer},
    record::Record,
    summary::{Row, Summary, Trouble},
};

/// What a session's records add up to.
pub type Summarise = fn(&[Record]) -> Summary;

/// The ledger of this supervisor. Clones are handles on the same one; the last one that goes closes it.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sessions: PathBuf,
    table: Arc<Table>,
    /// The queue and the thread behind it; none once the ledger is closed.
    writer: Mutex<Option<(Sender<Request>, JoinHandle<()>)>>,
}

impl Ledger {
    /// Opens the ledger of `state_dir`, and makes it where there is none: takes the lock, lists the sessions, cuts torn tails,
    /// and rereads with `summarise` the journals that the index is behind on. Blocks.
    ///
    /// # Errors
    /// Where another supervisor holds it, the directory is not this user's own, or the disk does not take a file. Trouble with
    /// one session is not an error here: its [`Row`] says it.
    pub fn open(state_dir: &Path, summarise: Summarise) -> Result<Self, LedgerError> {
        Self::open_with(state_dir, summarise, File::sync_data)
    }

    fn open_with(state_dir: &Path, summarise: Summarise, sync: SyncFile) -> Result<Self, LedgerError> {
        let state = StateDir::claim(state_dir)?;
        let sessions = state.sessions();
        let (wake, changes) = mpsc::sync_channel(1);
        let table = Arc::new(Table::new(wake));
        let (mut index, mut entries) = Index::open(&state.index());
        survey::survey(&sessions, &mut entries, summarise, &table)?;
        let gone: Vec<SessionId> = entries.into_keys().collect();
        if !gone.is_empty() {
            tracing::warn!(sessions = ?gone, "the folders of these sessions were removed; they are forgotten");
            index.save(&[], &gone);
        }
        let failed = |error| LedgerError::io("starting the threads of", state_dir, &error);
        let keeper = Keeper { index, sessions: sessions.clone(), table: Arc::clone(&table) };
        let keeper = keeper.start(changes).map_err(failed)?;
        let writer = Writer::new(sessions.clone(), Arc::clone(&table), summarise, Syncers::new(sync));
        let (queue, requests) = mpsc::channel();
        let last = Arc::clone(&table);
        let thread = thread::Builder::new().name("ledger".to_owned()).spawn(move || {
            writer.run(&requests);
            last.dismiss_keeper();
            let _ = keeper.join();
            // Only now may another supervisor come.
            drop(state);
        });
        let writer = Mutex::new(Some((queue, thread.map_err(failed)?)));
        Ok(Self(Arc::new(Inner { sessions, table, writer })))
    }

    /// Every session, the newest first.
    #[must_use]
    pub fn sessions(&self) -> Vec<Row> {
        self.0.table.rows()
    }

    /// One session of the list.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<Row> {
        self.0.table.row(id)
    }

    /// The session that was started with this key. The digest of the call's input is in its [`Summary`].
    #[must_use]
    pub fn session_of_start_key(&self, key: &IdempotencyKey) -> Option<SessionId> {
        self.0.table.session_of_start_key(key)
    }

    /// All records of a session, in order. Reads and checks the whole journal: blocks.
    ///
    /// # Errors
    /// Where there is no such session, or its journal is damaged, newer than this release, or can't be read.
    pub fn load(&self, id: SessionId) -> Result<Vec<Durable<Record>>, LedgerError> {
        let mut records = Vec::new();
        self.read(id, |reader| {
            let Some(record) = reader.next()? else { return Ok(false) };
            records.push(Durable::new(record, reader.position().records));
            Ok(true)
        })?;
        Ok(records)
    }

    /// Checks every byte of a session's journal, and says how many records it holds. Blocks.
    ///
    /// # Errors
    /// As [`Ledger::load`].
    pub fn verify(&self, id: SessionId) -> Result<u64, LedgerError> {
        self.read(id, Reader::advance).map(|end| end.records)
    }

    /// Reads a journal up to where it is durable; `step` takes one record and says whether there was one.
    fn read(
        &self,
        id: SessionId,
        mut step: impl FnMut(&mut Reader<BufReader<File>>) -> Result<bool, Stop>,
    ) -> Result<Position, LedgerError> {
        let durable = self.0.table.readable(id)?;
        let path = self.0.sessions.join(id.to_string()).join(journal::NAME);
        let file = File::open(&path).map_err(|error| LedgerError::io("opening", &path, &error))?;
        let length = file.metadata().map_err(|error| LedgerError::io("opening", &path, &error))?.len();
        let read =
            Reader::open(BufReader::new(file), id, length.min(durable.length)).and_then(|mut reader| {
                while step(&mut reader)? {}
                Ok(reader.position())
            });
        let what = match read {
            Ok(end) if end == durable => return Ok(end),
            Ok(_) | Err(Stop::Torn) => format!("it is not whole up to record {}", durable.records),
            Err(Stop::Io(error)) => return Err(LedgerError::io("reading", path, &error)),
            Err(Stop::Newer(newer)) => {
                self.0.table.trouble(id, newer.clone().into());
                return Err(newer.into());
            }
            Err(Stop::Damaged(damage)) => {
                self.0.table.trouble(id, damage.clone().into());
                return Err(damage.into());
            }
        };
        let damage = Damage { session: id, record: durable.records, byte: length, what };
        self.0.table.trouble(id, damage.clone().into());
        Err(damage.into())
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
        self.request(id, Kind::Create, records).await
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
        self.request(id, Kind::Append, records).await
    }

    async fn request(
        &self,
        session: SessionId,
        kind: Kind,
        records: Vec<Record>,
    ) -> Result<Vec<Durable<Record>>, LedgerError> {
        let (answer, answered) = oneshot::channel();
        let payloads = records.iter().map(|record| payload(session, record)).collect::<Result<_, _>>()?;
        self.send(Request { session, kind, records, payloads, answer })?;
        answered.await.unwrap_or(Err(LedgerError::Closed))
    }

    fn send(&self, request: Request) -> Result<(), LedgerError> {
        let writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (queue, _) = writer.as_ref().ok_or(LedgerError::Closed)?;
        queue.send(request).map_err(|_| LedgerError::Closed)
    }

    /// Tells the list what the session's records add up to.
    pub fn describe(&self, id: SessionId, summary: Summary) {
        self.0.table.describe(id, summary);
    }

    /// Writes what is waiting, and lets go of the state directory. Later calls are answered with [`LedgerError::Closed`]. Blocks.
    pub fn close(&self) {
        self.0.close();
    }
}

/// A record as it goes into a journal.
fn payload(session: SessionId, record: &Record) -> Result<Vec<u8>, LedgerError> {
    let encoded = serde_json::to_vec(record).map_err(|error| LedgerError::Io {
        attempt: "writing down a record for",
        path: session.to_string().into(),
        reason: error.to_string(),
        kind: std::io::ErrorKind::InvalidData,
    })?;
    if encoded.len() > journal::format::PAYLOAD_BYTES {
        return Err(LedgerError::TooLarge { session, bytes: encoded.len() });
    }
    Ok(encoded)
}

impl Inner {
    fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((queue, thread)) = writer {
            drop(queue);
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
