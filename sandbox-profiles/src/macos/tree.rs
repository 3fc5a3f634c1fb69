//! Which processes descend from the program, without a pid namespace and after any of them was orphaned.
//!
//! Every process carries a number that is never given twice, and that of the process which started it; orphaning
//! changes neither. The tree is looked at again at every fork and end of a known process.
//!
//! Limit: a process whose parent both started and ended between two looks is not known to belong to the tree. It stays
//! behind the same profile: it can write the scratch, and reach nothing.
//!
//! Invariant: a process is signalled only after its number was compared again.
#![expect(clippy::disallowed_methods, reason = "the reaper of a cage")]

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{collections::BTreeMap, io};

use super::sys::{self, Queue};

/// Looks without finding anything new before the tree counts as whole.
const QUIET_LOOKS: u32 = 2;

/// Most rounds of killing; each one stops everything known first, so a fork bomb loses within a few.
const MOST_ROUNDS: u32 = 1_000;

/// The known processes: unique number to pid.
#[derive(Debug)]
pub(super) struct Tree {
    known: BTreeMap<u64, i32>,
}

impl Tree {
    /// The tree below `root`, which the caller has just started and not yet waited for.
    pub(super) fn of(root: Pid) -> Self {
        let known = sys::unique(root.as_raw()).map(|unique| (unique.id, root.as_raw()));
        Tree { known: known.into_iter().collect() }
    }

    /// Takes in every process that a known one started; tells whether there were any.
    pub(super) fn look(&mut self, queue: &Queue) -> io::Result<bool> {
        let mut found_any = false;
        loop {
            let mut found = false;
            for pid in sys::all_processes()? {
                let Some(unique) = sys::unique(pid) else { continue };
                if self.known.contains_key(&unique.parent) && !self.known.contains_key(&unique.id) {
                    self.known.insert(unique.id, pid);
                    queue.watch_process(pid)?;
                    found = true;
                }
            }
            if !found {
                return Ok(found_any);
            }
            found_any = true;
        }
    }

    /// Sends a signal to every known process that still lives.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let mut lives = false;
        for (id, pid) in &self.known {
            if sys::unique(*pid).is_some_and(|unique| unique.id == *id) {
                lives |= kill(Pid::from_raw(*pid), signal).is_ok();
            }
        }
        lives
    }

    /// Ends the whole tree: stops everything known, looks for more until nothing new shows, kills.
    pub(super) fn end(&mut self, queue: &Queue) -> io::Result<()> {
        for _ in 0..MOST_ROUNDS {
            let mut quiet = 0;
            while quiet < QUIET_LOOKS {
                self.signal(Signal::SIGSTOP);
                quiet = if self.look(queue)? { 0 } else { quiet + 1 };
            }
            if !self.signal(Signal::SIGKILL) {
                return Ok(());
            }
        }
        Err(io::Error::other("a tree of processes outran its end"))
    }
}
