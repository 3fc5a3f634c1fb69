//! The changes of files that a session's records tell: who made them, what stood there before and after, and how they ended.
//!
//! Invariant: pure; whoever asks reads the records.

use std::path::{Path, PathBuf};

use protocol::{
    action::{Action, Effect, Prepared, PreparedWrite, Resolution},
    failure::ToolErrorCode,
    id::{ActionId, SubsessionId},
    receipt::{Facts, NOT_KEPT, Receipt},
    subagent::SubsessionEvent,
    timestamp::Timestamp,
    tool::ToolName,
};

use super::record::{Entry, Record};

/// Who made a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The session itself.
    Session,
    /// A sub-session of it.
    Subsession(SubsessionId),
}

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has no outcome yet.
    Open,
    /// It was made.
    Applied,
    /// It was not made.
    NotApplied,
    /// That can't be known.
    Indeterminate,
}

/// One change of one file.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The action.
    pub(crate) action_id: ActionId,
    /// Who made it.
    pub(crate) author: Author,
    /// When it was prepared.
    pub(crate) at: Timestamp,
    /// The file, relative to the session's root, and what it was to become.
    pub(crate) write: PreparedWrite,
    /// The file's canonical path where a receipt names it, else its place below the root.
    pub(crate) path: String,
    /// How it ended.
    pub(crate) standing: Standing,
    /// Whether its versions could be kept, as far as is known.
    pub(crate) kept: bool,
}

/// An action that a session's records name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its id.
    pub(crate) action_id: ActionId,
    /// Its tool.
    pub(crate) tool: ToolName,
}

/// The changes of one session and its sub-sessions, in the order in which they were prepared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    root: PathBuf,
    actions: Vec<Known>,
    changes: Vec<Change>,
}

impl Changes {
    /// What these records tell.
    pub(crate) fn of<'r>(records: impl IntoIterator<Item = &'r Record>) -> Self {
        let mut changes = Self::default();
        for record in records {
            changes.take(record);
        }
        changes
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter()
    }

    fn take(&mut self, record: &Record) {
        match &record.entry {
            Entry::Created(created) => self.root.clone_from(&created.workspace.root),
            Entry::WorkspaceReady { workspace } => self.root.clone_from(&workspace.root),
            Entry::Replied { reply, .. } => reply.actions.iter().for_each(|action| self.called(action)),
            Entry::Prepared { prepared, .. } => self.prepared(prepared, Author::Session),
            Entry::Receipt { receipt, .. } => self.received(receipt),
            Entry::Resolved { action_id, resolution, .. } => self.resolved(*action_id, *resolution),
            Entry::Subsession { subsession_id, event, .. } => match event {
                SubsessionEvent::Called(action) => self.called(action),
                SubsessionEvent::Prepared(prepared) => {
                    self.prepared(prepared, Author::Subsession(*subsession_id));
                }
                SubsessionEvent::Receipt(receipt) => self.received(receipt),
                SubsessionEvent::Resolved { action_id, resolution, .. } => {
                    self.resolved(*action_id, *resolution);
                }
                SubsessionEvent::Ended(_) => {}
            },
            Entry::RunStarted(_)
            | Entry::WorkerStarting { .. }
            | Entry::WorkerAttached { .. }
            | Entry::ClaudeStarted { .. }
            | Entry::TurnOpened { .. }
            | Entry::RunEnded { .. }
            | Entry::ClaudeGone { .. }
            | Entry::RootReplaced { .. }
            | Entry::LaunchFailed { .. }
            | Entry::WorkerGone { .. }
            | Entry::LeaseRenewed { .. }
            | Entry::LeaseExpired
            | Entry::Recovered { .. }
            | Entry::StopRequested { .. }
            | Entry::Stopped => {}
        }
    }

    fn called(&mut self, action: &Action) {
        self.actions.push(Known { action_id: action.action_id, tool: action.tool });
    }

    fn prepared(&mut self, prepared: &Prepared, author: Author) {
        let Effect::Write(write) = &prepared.effect else { return };
        self.changes.push(Change {
            action_id: prepared.action_id,
            author,
            at: prepared.prepared_at,
            path: shown(&self.root.join(&write.path)),
            write: write.clone(),
            standing: Standing::Open,
            kept: true,
        });
    }

    fn received(&mut self, receipt: &Receipt) {
        let Some(change) = self.open(receipt.action_id) else { return };
        change.standing = match &receipt.facts {
            Facts::Wrote { after, .. } => {
                change.path.clone_from(&after.path);
                Standing::Applied
            }
            Facts::None | Facts::Observed(_) | Facts::Ran(_)
                if receipt.error == Some(ToolErrorCode::Indeterminate) =>
            {
                Standing::Indeterminate
            }
            Facts::None | Facts::Observed(_) | Facts::Ran(_) => Standing::NotApplied,
        };
        // A line of the file itself begins otherwise.
        let note = |line: &str| line.strip_prefix('[').is_some_and(|note| note.starts_with(NOT_KEPT));
        change.kept = !receipt.content.lines().any(note);
    }

    fn resolved(&mut self, action_id: ActionId, resolution: Resolution) {
        let Some(change) = self.open(action_id) else { return };
        change.standing = match resolution {
            Resolution::Applied => Standing::Applied,
            Resolution::NotApplied | Resolution::NotStarted => Standing::NotApplied,
            Resolution::Indeterminate => Standing::Indeterminate,
        };
    }

    fn open(&mut self, action_id: ActionId) -> Option<&mut Change> {
        let is_it = |change: &&mut Change| change.action_id == action_id && change.standing == Standing::Open;
        self.changes.iter_mut().find(is_it)
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
