//! What became of a session's worktree.

use super::State;
use crate::ledger::record::{BranchFate, Entry};

/// What became of a session's worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Worktree {
    /// It stays.
    Kept,
    /// Its removal was begun.
    Removing {
        /// Where its branch stood.
        commit: String,
    },
    /// Its owner removed it.
    Removed {
        /// Where its branch stood.
        commit: String,
        /// What became of that.
        branch: BranchFate,
    },
}

impl State {
    /// Takes in what the owner did with the worktree.
    pub(super) fn worktree_goes(&mut self, entry: &Entry) {
        if let Entry::WorktreeRemoving { commit } = entry {
            self.worktree = Worktree::Removing { commit: commit.clone() };
        }
        if let Entry::WorktreeRemoved { commit, branch } = entry {
            self.worktree = Worktree::Removed { commit: commit.clone(), branch: *branch };
        }
    }
}
