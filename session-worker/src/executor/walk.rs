//! A walk below a directory: in parallel, in the order of the paths, over directory handles, never through a symbolic link.
//!
//! The queue hands out what stands first in the order. So many workers together stay close to the front, and a caller
//! that has enough moves the [`Bound`] there: what stands behind it is never looked at, and what stands before it is
//! all looked at. The result is the same whatever the workers' timing.
//!
//! Invariant: every name is opened relative to its directory's handle (or beneath the root's) without following links.
//! Invariant: what is protected, `.git`, and kernel file systems below an ordinary one are neither shown nor entered.

pub(crate) mod bound;
mod filesystem;
pub(crate) mod filter;
mod ignored;
mod node;
mod queue;
pub(crate) mod shelf;
#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use sandbox_profiles::{Judgement, Protected};

pub(crate) use bound::{Bound, Key};
pub(crate) use node::{Entry, Kind, Node};
use queue::{Queue, Work};

use super::{paths::Opened, tools::Stop};

/// Threads of one walk. With a warm cache more than the cores cost nothing, with a cold one they keep the disk busy.
const THREADS: usize = 16;

/// Entries that are visited as one piece of work: enough to be worth the queue, few enough to be shared.
const BATCH: usize = 32;

/// What a walk is asked to do.
pub(crate) struct Plan<'a> {
    pub(crate) protected: &'a Protected,
    pub(crate) stop: &'a Stop,
    pub(crate) bound: &'a Bound,
    /// Directories deep; 1 is the root itself.
    pub(crate) max_depth: u64,
    pub(crate) ignoring: Ignoring,
}

/// Whether `.gitignore` files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignoring {
    /// They are files like any other.
    Nothing,
    /// What they name is left out.
    Gitignored,
}

impl From<Option<bool>> for Ignoring {
    /// From the tools' optional `respect_gitignore`.
    fn from(respect: Option<bool>) -> Self {
        if respect == Some(true) { Ignoring::Gitignored } else { Ignoring::Nothing }
    }
}

/// What is done on the way.
pub(crate) trait Visitor: Sync {
    /// What each worker keeps for itself.
    type Own: Default;
    /// Further work on something that was visited.
    type More: Send;

    /// Whether it wants to visit an entry.
    fn wants(&self, directory: &Node, entry: &Entry) -> bool;

    /// Visits entries of one directory, in order. Work given back is queued behind their place.
    fn visit(&self, directory: &Node, entries: &[Entry], own: &mut Self::Own) -> Vec<(Key, Self::More)>;

    /// Does further work.
    fn go_on(&self, more: Self::More, own: &mut Self::Own);
}

/// What a walk met beside what it visited.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    unreadable: AtomicU64,
    protected: AtomicU64,
}

impl Tally {
    /// Directories that the system did not let be read.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Entries left out as protected.
    pub(crate) fn protected(&self) -> u64 {
        self.protected.load(Ordering::Relaxed)
    }
}

/// Walks below `root` and returns when all up to the bound is visited or the stop is raised.
pub(crate) fn below<V: Visitor>(root: Opened, plan: &Plan<'_>, visitor: &V) -> Tally {
    let node = Node::root(root, plan.protected, plan.ignoring);
    run(vec![(Key::default(), Work::List(node))], plan, visitor)
}

/// Does work that needs no directory, as the pieces of one large file.
pub(crate) fn over<V: Visitor>(pieces: Vec<(Key, V::More)>, plan: &Plan<'_>, visitor: &V) -> Tally {
    run(pieces.into_iter().map(|(key, more)| (key, Work::More(more))).collect(), plan, visitor)
}

fn run<V: Visitor>(start: Vec<(Key, Work<V::More>)>, plan: &Plan<'_>, visitor: &V) -> Tally {
    let queue = Queue::new(start);
    let tally = Tally::default();
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            // Where the system has no more threads, fewer do the work.
            let _ = std::thread::Builder::new()
                .name("walk".to_owned())
                .spawn_scoped(scope, || work(&queue, plan, visitor, &tally));
        }
        work(&queue, plan, visitor, &tally);
    });
    tally
}

fn work<V: Visitor>(queue: &Queue<V::More>, plan: &Plan<'_>, visitor: &V, tally: &Tally) {
    let mut own = V::Own::default();
    while let Some(work) = queue.take(plan.bound, plan.stop) {
        // Whatever happens in here, the others must hear that this piece is done.
        let done = queue.done_at_the_end();
        let more = match work {
            Work::List(node) => list(&node, plan, visitor, tally),
            Work::Enter(parent, name) => match parent.enter(&name) {
                Ok(Some(node)) => list(&node, plan, visitor, tally),
                Ok(None) => Vec::new(),
                Err(_) => {
                    tally.unreadable.fetch_add(1, Ordering::Relaxed);
                    Vec::new()
                }
            },
            Work::Visit(node, entries) => queued(visitor.visit(&node, &entries, &mut own)),
            Work::More(more) => {
                visitor.go_on(more, &mut own);
                Vec::new()
            }
        };
        done.with(more);
    }
}

fn queued<M>(more: Vec<(Key, M)>) -> Vec<(Key, Work<M>)> {
    more.into_iter().map(|(key, more)| (key, Work::More(more))).collect()
}

/// The work that a directory's entries are: runs of what is visited, and directories to enter, in their order.
fn list<V: Visitor>(
    node: &Arc<Node>,
    plan: &Plan<'_>,
    visitor: &V,
    tally: &Tally,
) -> Vec<(Key, Work<V::More>)> {
    let Ok(entries) = node.entries() else {
        tally.unreadable.fetch_add(1, Ordering::Relaxed);
        return Vec::new();
    };
    let node = node.with_rules(&entries);
    let mut all = Vec::new();
    let mut batch: Vec<Entry> = Vec::new();
    for entry in entries {
        if entry.is_git() || node.ignores(&entry) {
            continue;
        }
        if node.judges() && plan.protected.judge(&node.path_of(&entry), None) != Judgement::Open {
            tally.protected.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let enters = entry.kind == Kind::Directory && node.depth() < plan.max_depth;
        let name = enters.then(|| entry.name.clone());
        if visitor.wants(&node, &entry) {
            batch.push(entry);
        }
        if (enters || batch.len() == BATCH) && !batch.is_empty() {
            all.push(visit(&node, std::mem::take(&mut batch)));
        }
        if let Some(name) = name {
            all.push((node.key_of(&name), Work::Enter(Arc::clone(&node), name)));
        }
    }
    if !batch.is_empty() {
        all.push(visit(&node, batch));
    }
    all
}

fn visit<M>(node: &Arc<Node>, batch: Vec<Entry>) -> (Key, Work<M>) {
    let key = batch.first().map(|entry| node.key_of(&entry.name)).unwrap_or_default();
    (key, Work::Visit(Arc::clone(node), batch))
}
