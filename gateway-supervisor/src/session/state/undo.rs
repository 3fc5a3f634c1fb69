//! An undo: begun, prepared, done; and what it changes of what the session remembers.
//!
//! Invariant: at most one is open. What it wrote was not observed by the session: its next write there needs another look.

use protocol::{
    action::{Effect, Prepared, Resolution},
    digest::Digest,
    id::ActionId,
    receipt::Facts,
};

use super::{Progress, State};
use crate::{
    ledger::record::{Entry, UndoBegun},
    supervisor::clear::{Leftover, PreparedChange},
};

/// An undo that has no outcome yet.
#[derive(Debug, Clone)]
pub(crate) struct OpenUndo {
    /// What it is.
    pub(crate) begun: UndoBegun,
    /// What it is about to do, once it came so far.
    pub(crate) prepared: Option<Prepared>,
}

impl OpenUndo {
    /// What it may have left beside its file.
    pub(crate) fn left_behind(&self) -> Leftover {
        Leftover {
            action_id: self.begun.action_id,
            path: self.begun.path.clone(),
            prepared: self.prepared.as_ref().and_then(|prepared| PreparedChange::of(&prepared.effect)),
        }
    }

    /// What stood there before and what it was to make of it.
    fn change(&self) -> Option<(Option<Digest>, Option<Digest>)> {
        match &self.prepared.as_ref()?.effect {
            Effect::Write(write) => Some((write.before, Some(write.after))),
            Effect::Remove(removal) => Some((Some(removal.before), None)),
            Effect::Command { .. } | Effect::Subsession { .. } => None,
        }
    }
}

impl State {
    /// Whether an action of the session's own on this file was prepared and has no outcome yet.
    pub(crate) fn is_being_written(&self, path: &std::path::Path) -> bool {
        let actions = self.open_run().and_then(|run| run.answer.as_ref()).into_iter();
        actions.flat_map(|answer| &answer.actions).any(|action| match &action.progress {
            Progress::Prepared(prepared) => {
                PreparedChange::of(&prepared.effect).is_some_and(|change| change.path() == path)
            }
            Progress::Authorized | Progress::Done(_) | Progress::Resolved(_) => false,
        })
    }

    /// A record of an undo; any other changes nothing.
    pub(super) fn undo_went_on(&mut self, entry: &Entry) {
        self.newest_undo = self.records;
        if let Entry::UndoBegun(begun) = entry {
            self.undo = Some(OpenUndo { begun: begun.clone(), prepared: None });
        } else if let Entry::UndoPrepared { prepared } = entry {
            if let Some(open) = self.undo.as_mut().filter(|o| o.begun.action_id == prepared.action_id) {
                open.prepared = Some(prepared.clone());
            }
        } else if let Entry::UndoReceipt { receipt } = entry {
            let done = match receipt.facts {
                Facts::Wrote { .. } | Facts::Removed(_) => Resolution::Applied,
                Facts::None | Facts::Observed(_) | Facts::Ran(_) => Resolution::NotApplied,
            };
            self.undo_resolved(receipt.action_id, done);
        }
    }

    /// The open undo, where this is its action, has an outcome.
    pub(super) fn undo_resolved(&mut self, action_id: ActionId, resolution: Resolution) {
        let Some(open) = self.undo.take_if(|open| open.begun.action_id == action_id) else { return };
        self.newest_undo = self.records;
        if resolution != Resolution::Applied {
            return;
        }
        let path = self.birth.workspace.root.join(&open.begun.path).to_string_lossy().into_owned();
        let sub = open.begun.subsession_id;
        if let Some(sub) = self.subsessions.iter_mut().find(|found| Some(found.id) == sub)
            && let Some(change) = open.change()
        {
            sub.undone(path, change);
        }
    }
}
