//! The order of a walk, and how far it still has to go.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// A place in the order: the names from the root on, each ended by a zero byte, which no name holds. So a directory
/// stands before what is in it, and all of that before the directory's next sibling.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(Box<[u8]>);

impl Key {
    /// The place of `name` in the directory at this place.
    pub(crate) fn below(&self, name: &[u8]) -> Key {
        let mut key = Vec::with_capacity(self.0.len() + name.len() + 1);
        key.extend_from_slice(&self.0);
        key.extend_from_slice(name);
        key.push(0);
        Key(key.into_boxed_slice())
    }

    /// The place of a piece of the file at this place.
    pub(crate) fn piece(&self, number: u32) -> Key {
        let mut key = self.0.to_vec();
        key.extend_from_slice(&number.to_be_bytes());
        Key(key.into_boxed_slice())
    }
}

/// The last place that counts. It only ever moves to the front.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    is_set: AtomicBool,
    last: Mutex<Option<Key>>,
}

impl Bound {
    /// Nothing behind `last` counts any more.
    pub(crate) fn move_to(&self, last: &Key) {
        let mut current = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|current| last < current) {
            *current = Some(last.clone());
            self.is_set.store(true, Ordering::Release);
        }
    }

    /// Whether `key` stands behind it.
    pub(crate) fn is_before(&self, key: &Key) -> bool {
        self.is_set.load(Ordering::Acquire)
            && self
                .last
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_ref()
                .is_some_and(|last| last < key)
    }

    /// Whether it was ever moved.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }
}
