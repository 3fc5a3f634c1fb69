//! What a walk found, as much of the front of the order as is wanted.
//!
//! Invariant: what is kept does not grow beyond what is wanted and the piece that goes over it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use super::bound::{Bound, Key};

/// How much there is of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Things to show.
    pub(crate) count: u64,
    /// Bytes that showing them takes.
    pub(crate) bytes: u64,
}

impl Amount {
    const fn reaches(self, wanted: Amount) -> bool {
        self.count >= wanted.count || self.bytes >= wanted.bytes
    }

    const fn without(self, part: Amount) -> Amount {
        Amount { count: self.count - part.count, bytes: self.bytes - part.bytes }
    }
}

/// What happens once enough is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enough {
    /// The walk ends there.
    Ends,
    /// The walk goes on, to count.
    GoesOn,
}

#[derive(Debug)]
struct Inner<T> {
    kept: BTreeMap<Key, (Amount, T)>,
    amount: Amount,
}

/// The shelf.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    wanted: Amount,
    enough: Enough,
    bound: Bound,
    inner: Mutex<Inner<T>>,
}

impl<T> Shelf<T> {
    pub(crate) fn new(wanted: Amount, enough: Enough) -> Self {
        let inner = Inner { kept: BTreeMap::new(), amount: Amount::default() };
        Shelf { wanted, enough, bound: Bound::default(), inner: Mutex::new(inner) }
    }

    /// How far the walk has to go.
    pub(crate) const fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Puts something at its place.
    pub(crate) fn put(&self, key: Key, amount: Amount, found: T) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.amount =
            Amount { count: inner.amount.count + amount.count, bytes: inner.amount.bytes + amount.bytes };
        inner.kept.insert(key, (amount, found));
        while let Some(last) = inner.kept.last_entry() {
            let part = last.get().0;
            if !inner.amount.without(part).reaches(self.wanted) {
                break;
            }
            inner.kept.pop_last();
            inner.amount = inner.amount.without(part);
        }
        if self.enough == Enough::Ends
            && inner.amount.reaches(self.wanted)
            && let Some((last, _)) = inner.kept.last_key_value()
        {
            self.bound.move_to(last);
        }
    }

    /// What was found, in the order of the walk.
    pub(crate) fn into_found(self) -> impl Iterator<Item = (Key, T)> {
        let inner = self.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        inner.kept.into_iter().map(|(key, (_, found))| (key, found))
    }
}
