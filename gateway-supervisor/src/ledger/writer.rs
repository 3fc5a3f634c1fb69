//! The one thread that writes journals: takes all that waits, appends it, syncs each journal once, and acknowledges.
//!
//! Invariant: nothing is acknowledged before the sync of its journal succeeded.
//! Invariant: the only place that mints an acknowledgement.
#![expect(clippy::disallowed_methods, reason = "the one place that acknowledges: what it names is on disk")]

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, mpsc::Receiver},
};

use protocol::{
    crash,
    digest::Digest,
    id::SessionId,
    recorded::{Ack, RecordId},
};
use tokio::sync::oneshot;

use super::{
    Summarise,
    durable::Durable,
    error::LedgerError,
    journal::{Journal, reader::Position},
    record::{Entry, Record},
    summary::Trouble,
    survey::is_creation_of,
    sync::Syncers,
    table::{Freshness, Known, Table},
};

/// Bytes after which a group is written even though more is waiting: nobody's record should wait for all of a flood.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Journals that are kept open. Sessions at work are far fewer; opening one again costs microseconds.
const OPEN_JOURNALS: usize = 64;

/// An acknowledgement; asked for by something durable only.
pub(super) const fn mint(record: RecordId, digest: Digest) -> Ack {
    Ack::mint(record, digest)
}

/// Where the answer to a request goes.
pub(super) type Answer = oneshot::Sender<Result<Vec<Durable<Record>>, LedgerError>>;

/// Records for one session, with their payloads.
#[derive(Debug)]
pub(super) struct Request {
    /// The session.
    pub session: SessionId,
    /// Whether they make the session or add to it.
    pub kind: Kind,
    /// The records.
    pub records: Vec<Record>,
    /// The same as they go into the journal.
    pub payloads: Vec<Vec<u8>>,
    /// Who waits.
    pub answer: Answer,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Makes a session.
    Create,
    /// Adds to a session.
    Append,
}

/// The thread's world.
#[derive(Debug)]
pub(super) struct Writer {
    sessions: PathBuf,
    table: Arc<Table>,
    summarise: Summarise,
    open: HashMap<SessionId, Journal>,
    syncers: Syncers,
}

/// What is written and synced together.
#[derive(Debug, Default)]
struct Group {
    waiting: Vec<Waiting>,
    tails: BTreeMap<SessionId, Tail>,
    bytes: usize,
}

/// An append that is in the group.
#[derive(Debug)]
struct Waiting {
    session: SessionId,
    first: u64,
    records: Vec<Record>,
    answer: Answer,
}

/// What one journal gets.
#[derive(Debug)]
struct Tail {
    bytes: Vec<u8>,
    end: Position,
}

impl Writer {
    /// A writer of the journals below `sessions`.
    pub(super) fn new(sessions: PathBuf, table: Arc<Table>, summarise: Summarise, syncers: Syncers) -> Self {
        Self { sessions, table, summarise, open: HashMap::new(), syncers }
    }

    /// Serves requests until nobody can send any more.
    pub(super) fn run(mut self, requests: &Receiver<Request>) {
        while let Ok(first) = requests.recv() {
            let mut group = Group::default();
            self.take(first, &mut group);
            while group.bytes < GROUP_BYTES
                && let Ok(next) = requests.try_recv()
            {
                self.take(next, &mut group);
            }
            self.commit(group);
        }
    }

    fn take(&mut self, request: Request, group: &mut Group) {
        match request.kind {
            Kind::Create => {
                let outcome = self.create(request.session, &request.records, &request.payloads);
                let answer = outcome.map(|()| durable(1, request.records));
                let _ = request.answer.send(answer);
            }
            Kind::Append => {
                if let Err((answer, error)) = self.stage(request, group) {
                    let _ = answer.send(Err(error));
                }
            }
        }
    }

    fn create(&mut self, id: SessionId, records: &[Record], payloads: &[Vec<u8>]) -> Result<(), LedgerError> {
        let key = match records.first().map(|record| &record.entry) {
            Some(Entry::Created(created)) if is_creation_of(id, records.first()) => &created.idempotency_key,
            Some(_) | None => return Err(LedgerError::NotACreation(id)),
        };
        if self.table.contains(id) {
            return Err(LedgerError::Exists(id));
        }
        if let Some(owner) = self.table.session_of_start_key(key) {
            return Err(LedgerError::StartKeyTaken(owner));
        }
        let journal = Journal::create(&self.sessions, id, payloads)?;
        let mut summary = (self.summarise)(records);
        summary.records = journal.position.records;
        let known = Known { position: Some(journal.position), summary: Some(summary), trouble: None };
        self.table.insert(id, known, Freshness::Unindexed);
        self.open.insert(id, journal);
        Ok(())
    }

    /// Puts an append into the group.
    fn stage(&mut self, request: Request, group: &mut Group) -> Result<(), (Answer, LedgerError)> {
        let Request { session, records, payloads, answer, .. } = request;
        let end = match group.tails.get(&session) {
            Some(tail) => tail.end,
            None => match self.journal(session) {
                Ok(position) => position,
                Err(error) => return Err((answer, error)),
            },
        };
        let tail = group.tails.entry(session).or_insert(Tail { bytes: Vec::new(), end });
        let before = tail.bytes.len();
        for payload in &payloads {
            tail.end.write(payload, &mut tail.bytes);
        }
        group.bytes += tail.bytes.len() - before;
        group.waiting.push(Waiting { session, first: end.records + 1, records, answer });
        Ok(())
    }

    /// Makes sure that a session's journal is open, and says where it ends.
    fn journal(&mut self, id: SessionId) -> Result<Position, LedgerError> {
        let position = self.table.writable(id)?;
        if let Some(journal) = self.open.get(&id) {
            return Ok(journal.position);
        }
        let journal = Journal::open(&self.sessions, id, position).inspect_err(|error| {
            if let LedgerError::Damaged(damage) = error {
                self.table.trouble(id, damage.clone().into());
            }
        })?;
        self.open.insert(id, journal);
        Ok(position)
    }

    fn commit(&mut self, mut group: Group) {
        crash::point("supervisor-before-append");
        let mut failed: HashMap<SessionId, LedgerError> = HashMap::new();
        let mut written = Vec::new();
        for (id, tail) in std::mem::take(&mut group.tails) {
            match self.write(id, &tail) {
                Ok(file) => written.push((id, tail.end, file)),
                Err(error) => {
                    failed.insert(id, error);
                }
            }
        }
        let files = written.iter().map(|(_, _, file)| Arc::clone(file)).collect();
        crash::point("supervisor-after-append");
        let outcomes = self.syncers.sync(files);
        crash::point("supervisor-after-sync");
        for ((id, end, _), outcome) in written.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => self.table.synced(id, end),
                Err(error) => {
                    failed.insert(id, self.poison(id, &format!("syncing it: {error}")));
                }
            }
        }
        for Waiting { session, first, records, answer } in group.waiting {
            // A session that ended takes hardly anything more.
            if records.iter().any(|record| matches!(record.entry, Entry::Stopped)) {
                self.open.remove(&session);
            }
            // One that went away left its record behind all the same.
            let _ = answer.send(match failed.get(&session) {
                None => Ok(durable(first, records)),
                Some(error) => Err(error.clone()),
            });
        }
        if self.open.len() > OPEN_JOURNALS {
            self.open.clear();
        }
    }

    fn write(&mut self, id: SessionId, tail: &Tail) -> Result<Arc<std::fs::File>, LedgerError> {
        let journal = self.open.get_mut(&id).ok_or(LedgerError::NoSession(id))?;
        match journal.write(&tail.bytes, tail.end) {
            Ok(()) => Ok(journal.file()),
            Err(failure) if failure.taken_back => {
                let error = LedgerError::io("recording in", journal.path(), &failure.error);
                tracing::error!(session = %id, %error, "nothing was recorded");
                Err(error)
            }
            Err(failure) => Err(self.poison(id, &format!("writing it: {}", failure.error))),
        }
    }

    /// Closes a journal for good: what is on the disk of it can't be known before it is read again.
    fn poison(&mut self, id: SessionId, reason: &str) -> LedgerError {
        tracing::error!(session = %id, reason, "a journal failed; its session takes nothing more until a restart");
        self.open.remove(&id);
        self.table.trouble(id, Trouble::Poisoned(reason.to_owned()));
        LedgerError::Poisoned { session: id, reason: reason.to_owned() }
    }
}

fn durable(first: u64, records: Vec<Record>) -> Vec<Durable<Record>> {
    (first..).zip(records).map(|(number, record)| Durable::new(record, number)).collect()
}
