//! The work that is left, handed out from the front of the order.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{
    bound::{Bound, Key},
    node::{Entry, Node},
};
use crate::executor::tools::Stop;

/// A piece of work.
#[derive(Debug)]
pub(super) enum Work<M> {
    /// List a directory that is open.
    List(Arc<Node>),
    /// Open a directory of this one, and list it.
    Enter(Arc<Node>, Box<[u8]>),
    /// Visit entries of a directory.
    Visit(Arc<Node>, Vec<Entry>),
    /// Go on with something that was visited.
    More(M),
}

#[derive(Debug)]
struct Item<M> {
    key: Key,
    work: Work<M>,
}

impl<M> PartialEq for Item<M> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<M> Eq for Item<M> {}

impl<M> PartialOrd for Item<M> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Item<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

#[derive(Debug)]
struct Inner<M> {
    left: BinaryHeap<Reverse<Item<M>>>,
    /// Workers that have a piece, and may add to what is left.
    busy: usize,
    idle: usize,
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue<M> {
    inner: Mutex<Inner<M>>,
    changed: Condvar,
}

/// Says at its end that a piece is done.
pub(super) struct Done<'a, M> {
    queue: &'a Queue<M>,
    more: Vec<(Key, Work<M>)>,
}

impl<M> Queue<M> {
    pub(super) fn new(start: Vec<(Key, Work<M>)>) -> Self {
        let left = start.into_iter().map(|(key, work)| Reverse(Item { key, work })).collect();
        Queue { inner: Mutex::new(Inner { left, busy: 0, idle: 0 }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<M>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece; none where all is done.
    pub(super) fn take(&self, bound: &Bound, stop: &Stop) -> Option<Work<M>> {
        let mut inner = self.lock();
        loop {
            if stop.is_raised() {
                inner.left.clear();
            }
            match inner.left.pop() {
                // What is left stands behind it too.
                Some(Reverse(first)) if bound.is_before(&first.key) => inner.left.clear(),
                Some(Reverse(first)) => {
                    inner.busy += 1;
                    return Some(first.work);
                }
                None if inner.busy == 0 => {
                    self.changed.notify_all();
                    return None;
                }
                None => {
                    inner.idle += 1;
                    inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
                    inner.idle -= 1;
                }
            }
        }
    }

    pub(super) const fn done_at_the_end(&self) -> Done<'_, M> {
        Done { queue: self, more: Vec::new() }
    }
}

impl<M> Done<'_, M> {
    /// Done, and this came of it.
    pub(super) fn with(mut self, more: Vec<(Key, Work<M>)>) {
        self.more = more;
    }
}

impl<M> Drop for Done<'_, M> {
    fn drop(&mut self) {
        let mut inner = self.queue.lock();
        let added = self.more.len();
        inner.left.extend(self.more.drain(..).map(|(key, work)| Reverse(Item { key, work })));
        inner.busy -= 1;
        let wake = if inner.busy == 0 && inner.left.is_empty() {
            inner.idle
        } else {
            // One of them is taken by this worker itself.
            inner.idle.min(added.saturating_sub(1))
        };
        drop(inner);
        for _ in 0..wake {
            self.queue.changed.notify_one();
        }
    }
}
