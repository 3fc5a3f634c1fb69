//! `Edit`, `Write` and `NotebookEdit`, from the call to the outcome: locate, compare with what was seen, make the new
//! content, keep both versions, stage, record, commit (X5, X6, X7).
//!
//! Invariant: nothing of the project changes before the change is durably recorded (T4).
//! Invariant: an existing file is changed only if the session has seen exactly the bytes that it holds.
//! Invariant: the root is the directory of the session's birth, by its handle, at every write (P1).

mod change;
mod excerpt;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use protocol::{
    action::{Effect, Prepared},
    crash,
    failure::ToolErrorCode,
    id::ActionId,
    receipt::NOT_KEPT,
    recorded::Recorded,
    timestamp::Timestamp,
    workspace::RootIdentity,
};
use sandbox_profiles::Protected;
use tokio::runtime::Handle;

pub(crate) use change::Change;
use report::Report;

use super::{
    atomic_write::{Commit, Current, NewModes, Refusal, Root, Staged, TempName},
    display,
    observed::Observations,
    outcome::{ToolFailure, ToolOutcome},
    paths::{self, Wanted},
    versions::Versions,
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
    fn prepared(&self, prepared: Prepared) -> Result<Recorded<Prepared>, NotRecorded> {
        self.runtime.block_on(self.recorder.prepared(prepared))
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
        let root = self.open_root().map_err(refused)?;
        let target = root.locate(change.path()).map_err(refused)?;
        let current = Current::look(&root, &target, protected).map_err(refused)?;
        let path = current.canonical_path().map_err(refused)?;
        let before = self.expect_observed(change, &current, &path)?;
        if before.is_none() && !change.may_create() {
            return Err(absent(change, protected));
        }
        let made = change.make(before)?;
        if before == Some(made.content.as_slice()) {
            return Ok(report::unchanged(&path, before.unwrap_or_default()));
        }
        let mut report = Report::new(&path, (before, &made));
        if let Err(error) = self.keep(before, &made.content) {
            report.note(format!("{NOT_KEPT} ({error}), so this change can't be undone"));
        }
        crash::point("worker-before-stage");
        let name = TempName::for_action(action_id);
        let staged = current.stage(&made.content, name, self.modes).map_err(refused)?;
        crash::point("worker-after-stage");
        let done = commit(staged, action_id, barrier);
        report.outcome(change, done)
    }

    /// The root of the session's birth, by a handle.
    fn open_root(&self) -> Result<Root, Refusal> {
        let root = Root::open(&self.root)?;
        match RootIdentity::of(root.directory()) {
            Ok(now) if !self.identity.is_other_than(&now) => Ok(root),
            Ok(_) => Err(Refusal::RootReplaced { root: self.root.clone() }),
            Err(source) => Err(Refusal::System {
                attempt: "looking at the session's directory",
                path: self.root.clone(),
                source,
            }),
        }
    }

    /// The content that the file has, which the session has seen; none where there is no file.
    fn expect_observed<'c>(
        &self,
        change: &Change,
        current: &'c Current<'_>,
        path: &Path,
    ) -> Result<Option<&'c [u8]>, ToolFailure> {
        let (Some(now), Some(bytes)) = (current.digest(), current.bytes()) else { return Ok(None) };
        let shown = display::path(path);
        let why = match self.observed.newest(path) {
            Some(seen) if seen == now => return Ok(Some(bytes)),
            Some(seen) => format!("it has changed since this session saw it as SHA-256 {seen}"),
            None => "it exists and this session has not read it".to_owned(),
        };
        Err(ToolFailure::new(
            ToolErrorCode::StaleRead,
            format!(
                "{} {shown}: {why}; nothing was written. It now has {} bytes, SHA-256 {now}: Read it and decide on what it holds",
                change.attempt(),
                bytes.len()
            ),
        ))
    }

    /// Keeps both versions. They are named by the record that follows.
    fn keep(&self, before: Option<&[u8]>, after: &[u8]) -> std::io::Result<()> {
        let digest = protocol::digest::Digest::of;
        let contents: Vec<_> =
            before.into_iter().chain([after]).map(|bytes| (digest(bytes), bytes)).collect();
        self.versions.keep(&contents)
    }
}

/// Records what is staged, and only then lets it take its place. The staged file is gone where it is not recorded.
fn commit(staged: Staged<'_>, action_id: ActionId, barrier: &Barrier) -> Result<Done, NotRecorded> {
    let write = staged.prepared().clone();
    let effect = Effect::Write(write.clone());
    let recorded = barrier.prepared(Prepared { action_id, prepared_at: Timestamp::now(), effect })?;
    crash::point("worker-after-prepared-acknowledged");
    let commit = staged.commit(&recorded);
    crash::point("worker-after-commit");
    Ok(Done { write, commit })
}

/// A commit and what it was to do.
#[derive(Debug)]
struct Done {
    write: protocol::action::PreparedWrite,
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
