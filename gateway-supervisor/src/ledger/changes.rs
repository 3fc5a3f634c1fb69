//! The changes of files that a session's records tell: who made them, what stood there before and after, and how they ended.
//!
//! Invariant: pure; whoever asks reads the records.

use std::{collections::HashMap, path::PathBuf};

use protocol::{
    action::{Action, Effect, Prepared, Resolution},
    digest::Digest,
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
    /// The owner, who undid another change.
    Owner {
        /// That change.
        undoes: ActionId,
    },
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
    /// The file, relative to the session's root.
    pub(crate) file: PathBuf,
    /// The file's canonical path where a receipt names it, else its place below the root.
    pub(crate) path: String,
    /// What stood there before; none is no file.
    pub(crate) before: Option<Digest>,
    /// What stands there afterwards; none is no file.
    pub(crate) after: Option<Digest>,
    /// Bytes before and afterwards.
    pub(crate) bytes: (u64, u64),
    /// Permission bits of a file that was taken away.
    pub(crate) mode: Option<u32>,
    /// Directories that were made on its way, relative to the root, outermost first.
    pub(crate) made_directories: Vec<PathBuf>,
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
    /// Its tool; none where it is an undo.
    pub(crate) tool: Option<ToolName>,
}

/// The changes of one session and its sub-sessions, in the order in which they were prepared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    root: PathBuf,
    actions: Vec<Known>,
    changes: Vec<Change>,
    /// What each undo undoes.
    undos: HashMap<ActionId, ActionId>,
}

impl Change {
    /// The sub-session that made it.
    pub(crate) fn subsession(&self) -> Option<SubsessionId> {
        match self.author {
            Author::Subsession(id) => Some(id),
            Author::Session | Author::Owner { .. } => None,
        }
    }

    /// The contents that it names.
    pub(crate) fn contents(&self) -> impl Iterator<Item = Digest> {
        self.before.into_iter().chain(self.after)
    }
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

    /// Every action, in the order in which they were allowed.
    pub(crate) fn actions(&self) -> &[Known] {
        &self.actions
    }

    /// The change that this action made or was to make.
    pub(crate) fn change(&self, action_id: ActionId) -> Option<&Change> {
        self.changes.iter().find(|change| change.action_id == action_id)
    }

    /// The undo by which this change is undone now; none where it stands, or where that undo was undone itself.
    pub(crate) fn undone_by(&self, action_id: ActionId) -> Option<&Change> {
        // An undo comes after what it undoes: this ends.
        self.changes
            .iter()
            .rev()
            .find(|undo| undo.author == Author::Owner { undoes: action_id } && self.stands(undo))
    }

    /// Whether it was made and is not undone.
    pub(crate) fn stands(&self, change: &Change) -> bool {
        change.standing == Standing::Applied && self.undone_by(change.action_id).is_none()
    }

    /// The sub-session whose change this is, or whose change it undoes.
    pub(crate) fn origin(&self, change: &Change) -> Option<SubsessionId> {
        let mut change = change;
        while let Author::Owner { undoes } = change.author {
            change = self.change(undoes)?;
        }
        change.subsession()
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
            | Entry::Stopped
            | Entry::WorktreeRemoving { .. }
            | Entry::WorktreeRemoved { .. } => {}
            Entry::UndoBegun(begun) => {
                self.actions.push(Known { action_id: begun.action_id, tool: None });
                self.undos.insert(begun.action_id, begun.undoes);
            }
            Entry::UndoPrepared { prepared } => {
                if let Some(undoes) = self.undos.get(&prepared.action_id) {
                    self.prepared(prepared, Author::Owner { undoes: *undoes });
                }
            }
            Entry::UndoReceipt { receipt } => self.received(receipt),
        }
    }

    fn called(&mut self, action: &Action) {
        self.actions.push(Known { action_id: action.action_id, tool: Some(action.tool) });
    }

    fn prepared(&mut self, prepared: &Prepared, author: Author) {
        let mut change = Change {
            action_id: prepared.action_id,
            author,
            at: prepared.prepared_at,
            file: PathBuf::new(),
            path: String::new(),
            before: None,
            after: None,
            bytes: (0, 0),
            mode: None,
            made_directories: Vec::new(),
            standing: Standing::Open,
            kept: true,
        };
        match &prepared.effect {
            Effect::Write(write) => {
                change.file.clone_from(&write.path);
                (change.before, change.after, change.bytes) = (write.before, Some(write.after), write.bytes);
                change.made_directories.clone_from(&write.made_directories);
            }
            Effect::Remove(removal) => {
                change.file.clone_from(&removal.path);
                (change.before, change.bytes) = (Some(removal.before), (removal.bytes, 0));
                change.mode = Some(removal.mode);
            }
            Effect::Command { .. } | Effect::Subsession { .. } => return,
        }
        change.path = self.root.join(&change.file).to_string_lossy().into_owned();
        self.changes.push(change);
    }

    fn received(&mut self, receipt: &Receipt) {
        let Some(change) = self.open(receipt.action_id) else { return };
        change.standing = match &receipt.facts {
            Facts::Wrote { after: version, .. } | Facts::Removed(version) => {
                change.path.clone_from(&version.path);
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
