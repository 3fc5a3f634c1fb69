//! `Edit`, `Write` and `NotebookEdit`, from the call to the outcome: locate, compare with what was seen, make the new
//! content, keep both versions, stage, record, commit (X5, X6, X7).
//!
//! Invariant: nothing of the project changes before the change is durably recorded (T4), the new content is on the disk, and
//! so are both versions where they can be kept.
//! Invariant: an existing file is changed only if the session has seen exactly the bytes that it holds.
//! Invariant: the root is the directory of the session's birth, by its handle, at every write (P1).

mod change;
mod excerpt;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use protocol::{
    action::{Effect, Prepared, PreparedWrite},
    crash,
    failure::ToolErrorCode,
    id::ActionId,
    receipt::NOT_KEPT,
    recorded::Recorded,
    timestamp::Timestamp,
    workspace::RootIdentity,
};
use sandbox_profiles::Protected;
use tokio::{runtime::Handle, task::JoinHandle};

pub(crate) use change::Change;
use report::Report;

use super::{
    atomic_write::{Commit, Current, NewModes, Refusal, Root, Staged, TempName},
    display,
    observed::Observations,
    outcome::{ToolFailure, ToolOutcome},
    paths::{self, Wanted},
    versions::{Content, Keeping, Versions},
};
use crate::link::recorder::{NotRecorded, Recorder};

/// Where a session writes, and what it knows there.
#[derive(Debug)]
pub(crate) struct Writing {
    /// Canonical path of the root.
    pub(crate) root: PathBuf,
    /// What the root must be.
    pub(crate) identity: RootIdentity,
    /// Modes of what is made new.
    pub(crate) modes: NewModes,
    /// What the session has seen.
    pub(crate) observed: Observations,
    /// Where versions are kept.
    pub(crate) versions: Versions,
}

/// Makes a prepared change durable from a thread that may block.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    /// Asks for the record.
    pub(crate) recorder: Recorder,
    /// Where the asking runs.
    pub(crate) runtime: Handle,
}

impl Barrier {
    /// Asks for the record of a change. It is made while the caller goes on.
    fn ask(&self, prepared: Prepared) -> Asked<'_> {
        let recorder = self.recorder.clone();
        let record = self.runtime.spawn(async move { recorder.prepared(prepared).await });
        Asked { runtime: &self.runtime, record }
    }
}

/// A record that was asked for.
#[must_use]
struct Asked<'b> {
    runtime: &'b Handle,
    record: JoinHandle<Result<Recorded<Prepared>, NotRecorded>>,
}

impl Asked<'_> {
    /// Waits until it is durable.
    fn wait(self) -> Result<Recorded<Prepared>, NotRecorded> {
        self.runtime.block_on(self.record).unwrap_or(Err(NotRecorded))
    }
}

impl Writing {
    /// Makes one change. Blocks: on the disk, and until the change is recorded.
    ///
    /// # Errors
    /// [`ToolFailure`]: nothing was changed, or (with its own code) what was changed can't be known.
    pub(crate) fn carry_out(
        &self,
        (action_id, change): (ActionId, &Change),
        protected: &Protected,
        barrier: &Barrier,
    ) -> Result<ToolOutcome, ToolFailure> {
        let refused = |refusal| refused(change, &refusal);
        let root = Root::of_birth(&self.root, &self.identity).map_err(refused)?;
        let target = root.locate(change.path()).map_err(refused)?;
        let current = Current::look(&root, &target, protected).map_err(refused)?;
        let path = current.canonical_path().map_err(refused)?;
        let before = self.expect_observed(change, &current, &path)?;
        if before.is_none() && !change.may_create() {
            return Err(absent(change, protected));
        }
        let made = change.make(before.map(|before| before.bytes()))?;
        if let Some(before) = before.filter(|before| before.bytes() == made.content) {
            return Ok(report::unchanged(&path, &before));
        }
        let after = Content::of(&made.content);
        let mut report = Report::new(&path, (before.map(|before| before.bytes()), &made));
        let versions: Vec<_> = before.into_iter().chain([after]).collect();
        let keeping = self.versions.begin(&versions);
        crash::point("worker-before-stage");
        let name = TempName::for_action(action_id);
        let written = current.stage(&after, name, self.modes).map_err(refused)?;
        crash::point("worker-after-stage");
        // What has to be on the disk before the change goes there at once: the record, the staged file, both versions.
        let asked = barrier.ask(prepared(action_id, written.prepared()));
        let synced = written.sync();
        if let Err(error) = keeping.and_then(Keeping::finish) {
            report.note(format!("{NOT_KEPT} ({error}), so this change can't be undone"));
        }
        // Waited for in any case: its receipt comes after it.
        let recorded = asked.wait();
        let staged = synced.map_err(refused)?;
        report.outcome(change, recorded.map(|recorded| commit(staged, &recorded)))
    }

    /// The content that the file has, which the session has seen; none where there is no file.
    fn expect_observed<'c>(
        &self,
        change: &Change,
        current: &'c Current<'_>,
        path: &Path,
    ) -> Result<Option<Content<'c>>, ToolFailure> {
        let Some(content) = current.content() else { return Ok(None) };
        let now = content.sha256();
        let shown = display::path(path);
        let why = match self.observed.newest(path) {
            Some(seen) if seen == now => return Ok(Some(content)),
            Some(seen) => format!("it has changed since this session saw it as SHA-256 {seen}"),
            None => "it exists and this session has not read it".to_owned(),
        };
        Err(ToolFailure::new(
            ToolErrorCode::StaleRead,
            format!(
                "{} {shown}: {why}; nothing was written. It now has {} bytes, SHA-256 {now}: Read it and decide on what it holds",
                change.attempt(),
                content.bytes().len()
            ),
        ))
    }
}

fn prepared(action_id: ActionId, write: &PreparedWrite) -> Prepared {
    Prepared { action_id, prepared_at: Timestamp::now(), effect: Effect::Write(write.clone()) }
}

/// Lets what is staged and recorded take its place.
fn commit(staged: Staged<'_>, recorded: &Recorded<Prepared>) -> Done {
    let write = staged.prepared().clone();
    crash::point("worker-after-prepared-acknowledged");
    let commit = staged.commit(recorded);
    crash::point("worker-after-commit");
    Done { write, commit }
}

/// A commit and what it was to do.
#[derive(Debug)]
struct Done {
    write: PreparedWrite,
    commit: Commit,
}

fn refused(change: &Change, refusal: &Refusal) -> ToolFailure {
    ToolFailure::new(refusal.code(), format!("{}: {refusal}", change.attempt()))
}

/// Says what a reader would be told, with the names that were perhaps meant.
fn absent(change: &Change, protected: &Protected) -> ToolFailure {
    match paths::open(change.path(), Wanted::File, protected) {
        Err(failure) => ToolFailure {
            message: format!("{}: {}; Write makes a new file", change.attempt(), failure.message),
            ..failure
        },
        Ok(_) => ToolFailure::new(
            ToolErrorCode::StaleRead,
            format!(
                "{} {}: it appeared in this moment; Read it first",
                change.attempt(),
                display::path(change.path())
            ),
        ),
    }
}
