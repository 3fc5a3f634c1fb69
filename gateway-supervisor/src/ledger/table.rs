//! What is known of every session, in memory: the list that is shown, and where each journal ends.
//!
//! Invariant: a position is in the table only once the journal was synced up to it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError, mpsc::SyncSender},
};

use protocol::id::{IdempotencyKey, SessionId};

use super::{
    error::{Damage, LedgerError},
    journal::reader::Position,
    keeper::Changed,
    summary::{Row, Summary, Trouble},
};

/// One session.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Where its journal durably ends. None where there is trouble that forbids to say so.
    pub position: Option<Position>,
    /// What is shown of it.
    pub summary: Option<Summary>,
    /// Why it takes nothing more.
    pub trouble: Option<Trouble>,
}

/// All sessions. Locked for moments only, never over I/O.
#[derive(Debug)]
pub(super) struct Table(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    sessions: BTreeMap<SessionId, Known>,
    start_keys: HashMap<IdempotencyKey, SessionId>,
    /// Sessions of which the index on the disk does not know the newest.
    unindexed: BTreeSet<SessionId>,
    /// Wakes the keeper of the index.
    keeper: Option<SyncSender<Changed>>,
}

impl Contents {
    fn unindexed(&mut self, id: SessionId) {
        let was_clean = self.unindexed.is_empty();
        self.unindexed.insert(id);
        if was_clean && let Some(keeper) = &self.keeper {
            // Full means that it is about to look anyway.
            let _ = keeper.try_send(Changed);
        }
    }
}

impl Table {
    /// An empty table that wakes `keeper` when there is something to index.
    pub(super) fn new(keeper: SyncSender<Changed>) -> Self {
        Self(Mutex::new(Contents { keeper: Some(keeper), ..Contents::default() }))
    }

    /// Lets the keeper of the index end.
    pub(super) fn dismiss_keeper(&self) {
        self.lock().keeper = None;
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // Every change below is one step that leaves the contents whole, so a panic elsewhere does not spoil them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session as it was found on the disk, or as it was just made.
    pub(super) fn insert(&self, id: SessionId, known: Known, freshness: Freshness) {
        let mut contents = self.lock();
        if let Some(summary) = &known.summary {
            contents.start_keys.insert(summary.idempotency_key.clone(), id);
        }
        contents.sessions.insert(id, known);
        match freshness {
            Freshness::Indexed => {}
            Freshness::Unindexed => {
                contents.unindexed(id);
            }
        }
    }

    /// The list, the newest first; sessions of which nothing is known come last.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.lock().sessions.iter().map(|(id, known)| row(*id, known)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.summary.as_ref().map(|s| s.created_at)));
        rows
    }

    /// One row of the list.
    pub(super) fn row(&self, id: SessionId) -> Option<Row> {
        self.lock().sessions.get(&id).map(|known| row(id, known))
    }

    /// The session that was started with this key.
    pub(super) fn session_of_start_key(&self, key: &IdempotencyKey) -> Option<SessionId> {
        self.lock().start_keys.get(key).copied()
    }

    /// Whether there is such a session.
    pub(super) fn contains(&self, id: SessionId) -> bool {
        self.lock().sessions.contains_key(&id)
    }

    /// Where a session's journal ends, for one who wants to read it.
    pub(super) fn readable(&self, id: SessionId) -> Result<Position, LedgerError> {
        let contents = self.lock();
        let known = contents.sessions.get(&id).ok_or(LedgerError::NoSession(id))?;
        match (known.position, &known.trouble) {
            (Some(position), None | Some(Trouble::Poisoned(_))) => Ok(position),
            (_, Some(trouble)) => Err(refusal(id, trouble)),
            (None, None) => Err(LedgerError::NoSession(id)),
        }
    }

    /// Where a session's journal ends, for the one who adds to it.
    pub(super) fn writable(&self, id: SessionId) -> Result<Position, LedgerError> {
        let contents = self.lock();
        let known = contents.sessions.get(&id).ok_or(LedgerError::NoSession(id))?;
        match (known.position, &known.trouble) {
            (_, Some(trouble)) => Err(refusal(id, trouble)),
            (Some(position), None) => Ok(position),
            (None, None) => Err(LedgerError::NoSession(id)),
        }
    }

    /// Says that the session's journal was synced up to here.
    pub(super) fn synced(&self, id: SessionId, position: Position) {
        let mut contents = self.lock();
        if let Some(known) = contents.sessions.get_mut(&id) {
            known.position = Some(position);
            contents.unindexed(id);
        }
    }

    /// Replaces what is shown of a session, unless something newer is shown already.
    pub(super) fn describe(&self, id: SessionId, summary: Summary) {
        let mut contents = self.lock();
        if let Some(known) = contents.sessions.get_mut(&id)
            && known.summary.as_ref().is_none_or(|shown| shown.records <= summary.records)
        {
            known.summary = Some(summary);
            contents.unindexed(id);
        }
    }

    /// Says why a session takes nothing more. The first trouble stays.
    pub(super) fn trouble(&self, id: SessionId, trouble: Trouble) {
        if let Some(known) = self.lock().sessions.get_mut(&id) {
            known.trouble.get_or_insert(trouble);
        }
    }

    /// The sessions that the index should be told of, as they are now; each is given out once.
    pub(super) fn take_unindexed(&self) -> Vec<(SessionId, Known)> {
        let mut contents = self.lock();
        let ids = std::mem::take(&mut contents.unindexed);
        ids.into_iter().filter_map(|id| contents.sessions.get(&id).map(|known| (id, known.clone()))).collect()
    }
}

/// Whether the index on the disk says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It does.
    Indexed,
    /// It has to be told.
    Unindexed,
}

fn row(session_id: SessionId, known: &Known) -> Row {
    Row { session_id, summary: known.summary.clone(), trouble: known.trouble.clone() }
}

/// The answer to one who wants to use a session in trouble.
fn refusal(session: SessionId, trouble: &Trouble) -> LedgerError {
    match trouble {
        Trouble::Damaged(damage) => damage.clone().into(),
        Trouble::NewerRelease(newer) => newer.clone().into(),
        Trouble::Poisoned(reason) => LedgerError::Poisoned { session, reason: reason.clone() },
        Trouble::Unreadable(what) => {
            Damage { session, record: 0, byte: 0, what: format!("the file can't be read ({what})") }.into()
        }
    }
}
