//! What the state directory holds, found out at the start: from the index where it is current, from the journals where not.
//!
//! Invariant: a journal that a newer release wrote to is not changed in any way.
//! Invariant: trouble with one session is noted in its row and never hides another session.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};

use protocol::id::SessionId;

use super::{
    Summarise,
    error::{Damage, LedgerError},
    index::{Entries, Entry},
    journal::{
        self, NAME,
        reader::{Position, Reader, Stop},
    },
    keeper::{self, Stat},
    record::{Entry as Fact, Record},
    summary::Trouble,
    table::{Freshness, Known, Table},
};

/// Threads that look at sessions: where the index is lost, they mostly wait for the disk.
const LOOKERS: usize = 4;

/// Sessions that one thread looks at before a second one is worth its start.
const SHARE: usize = 64;

/// Fills `table` with every session below `sessions`, and leaves in `entries` those that are gone.
pub(super) fn survey(
    sessions: &Path,
    entries: &mut Entries,
    summarise: Summarise,
    table: &Table,
) -> Result<(), LedgerError> {
    let failed = |error: io::Error| LedgerError::io("listing the sessions in", sessions, &error);
    let mut examinations = Vec::new();
    for folder in fs::read_dir(sessions).map_err(failed)? {
        let name = folder.map_err(failed)?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<SessionId>().ok()) else {
            tracing::debug!(?name, "not a session's folder; left alone");
            continue;
        };
        examinations.push(Examination { sessions, id, entry: entries.remove(&id), summarise });
    }
    let queue = Mutex::new(examinations.into_iter());
    let look = || {
        while let Some(examination) = next(&queue) {
            examination.note(table);
        }
    };
    thread::scope(|scope| {
        let waiting = queue.lock().unwrap_or_else(PoisonError::into_inner).len();
        for _ in 1..LOOKERS.min(waiting.div_ceil(SHARE)) {
            // Where none can be started, this thread looks at them all.
            let _ = thread::Builder::new().name("ledger-survey".to_owned()).spawn_scoped(scope, look);
        }
        look();
    });
    Ok(())
}

/// The next of a queue that several threads take from. The lock is gone when this returns.
fn next<T>(queue: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Looks at one session.
struct Examination<'a> {
    sessions: &'a Path,
    id: SessionId,
    entry: Option<Entry>,
    summarise: Summarise,
}

impl Examination<'_> {
    /// Looks, and puts what there is into the table.
    fn note(self, table: &Table) {
        let id = self.id;
        let Some((known, freshness)) = self.run() else { return };
        if let Some(trouble) = &known.trouble {
            tracing::error!(session = %id, %trouble, "a session can't be used");
        }
        table.insert(id, known, freshness);
    }

    /// What there is of the session; none where its creation was never finished.
    fn run(self) -> Option<(Known, Freshness)> {
        match keeper::stat(self.sessions, self.id) {
            Ok(stat) => {
                Some(self.current(stat).map_or_else(|| self.reread(), |known| (known, Freshness::Indexed)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.no_journal(),
            Err(error) => Some(self.in_trouble(Trouble::Unreadable(error.to_string()), &[])),
        }
    }

    /// What the index says, if it is of just this journal.
    fn current(&self, stat: Stat) -> Option<Known> {
        let entry = self.entry.as_ref()?;
        let position = entry.anchor.position();
        let summary = entry.summary.clone().filter(|summary| summary.records == position.records)?;
        (stat.length == position.length && stat.modified == entry.modified).then_some(Known {
            position: Some(position),
            summary: Some(summary),
            trouble: None,
        })
    }

    fn no_journal(self) -> Option<(Known, Freshness)> {
        let folder = self.sessions.join(self.id.to_string());
        if self.entry.is_none() {
            journal::remove_unfinished(&folder);
            if !folder.exists() {
                tracing::info!(session = %self.id, "removed what was left of a session that was never created");
                return None;
            }
        }
        let what = "the file is missing".to_owned();
        let damage = Damage { session: self.id, record: 0, byte: 0, what };
        Some(self.in_trouble(damage.into(), &[]))
    }

    /// Reads the journal, mends what a crash left, and sums it up.
    fn reread(self) -> (Known, Freshness) {
        let mut records = Vec::new();
        match self.read(&mut records) {
            Ok(position) => {
                let mut summary = (self.summarise)(&records);
                summary.records = position.records;
                let known = Known { position: Some(position), summary: Some(summary), trouble: None };
                (known, Freshness::Unindexed)
            }
            Err(trouble) => self.in_trouble(trouble, &records),
        }
    }

    fn read(&self, records: &mut Vec<Record>) -> Result<Position, Trouble> {
        let path = self.sessions.join(self.id.to_string()).join(NAME);
        let unreadable = |error: io::Error| Trouble::Unreadable(error.to_string());
        let file = File::open(&path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut reader = Reader::open(BufReader::new(file), self.id, length).map_err(trouble)?;
        let anchor = self.entry.as_ref().map(|entry| entry.anchor.position());
        let mut torn = false;
        loop {
            match reader.next() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(Stop::Torn) => {
                    torn = true;
                    break;
                }
                Err(stop) => return Err(trouble(stop)),
            }
            if let Some(anchor) = anchor
                && reader.position().records == anchor.records
                && reader.position() != anchor
            {
                return Err(self.damage(anchor, "it is not the record that was recorded").into());
            }
        }
        let position = reader.position();
        if !is_creation_of(self.id, records.first()) {
            return Err(self.damage(Position::first(self.id), "its first record is not its creation").into());
        }
        if let Some(anchor) = anchor.filter(|anchor| anchor.records > position.records) {
            let what = format!("it ends here, and {} records were recorded", anchor.records);
            return Err(self.damage(position, &what).into());
        }
        let mended = if torn {
            tracing::warn!(session = %self.id, at = position.length, bytes = length - position.length,
                "cut the torn tail of a journal: what a crash left of a record that was never acknowledged");
            journal::cut(&path, position.length)
        } else {
            Ok(())
        };
        // A crash may have come between a write and its sync. Without an anchor there is nothing to go by but the sync itself.
        let from = anchor.map_or(position.length, |anchor| anchor.length);
        mended.and_then(|()| journal::make_durable(&path, from)).map_err(unreadable)?;
        Ok(position)
    }

    fn damage(&self, at: Position, what: &str) -> Damage {
        Damage { session: self.id, record: at.records + 1, byte: at.length, what: what.to_owned() }
    }

    /// A row that says the trouble, beside what was known before it.
    fn in_trouble(self, trouble: Trouble, records: &[Record]) -> (Known, Freshness) {
        let before = self.entry.and_then(|entry| entry.summary);
        let summary =
            before.or_else(|| is_creation_of(self.id, records.first()).then(|| (self.summarise)(records)));
        // Not to be indexed: it is to be looked at again at every start, against the same anchor.
        (Known { position: None, summary, trouble: Some(trouble) }, Freshness::Indexed)
    }
}

/// Whether this record is the creation of this session.
pub(super) fn is_creation_of(id: SessionId, first: Option<&Record>) -> bool {
    first.is_some_and(|record| matches!(&record.entry, Fact::Created(created) if created.session_id == id))
}

/// What a reader's stop means for the session.
pub(super) fn trouble(stop: Stop) -> Trouble {
    match stop {
        // Only a reader of a whole file meets a torn tail, and it handles that itself.
        Stop::Torn => Trouble::Unreadable("it ends within a record".to_owned()),
        Stop::Damaged(damage) => damage.into(),
        Stop::Newer(newer) => newer.into(),
        Stop::Io(error) => Trouble::Unreadable(error.to_string()),
    }
}
