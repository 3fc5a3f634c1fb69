//! What the model reads of a change: the file, both digests, what changed, what could not be kept.

use std::{fmt::Write, path::Path};

use protocol::{
    digest::Digest,
    failure::ToolErrorCode,
    receipt::{Facts, FileVersion},
};

use super::{
    Done,
    change::{Change, Made},
    excerpt, refused,
};
use crate::{
    executor::{
        atomic_write::{Commit, Observed},
        display,
        outcome::{ToolFailure, ToolOutcome},
        versions::Content,
    },
    link::recorder::NotRecorded,
};

/// A change that is about to be made, as it will be told.
#[derive(Debug)]
pub(super) struct Report {
    path: String,
    /// The path as a receipt remembers it.
    remembered: String,
    what: String,
    lines: usize,
    notes: Vec<String>,
    excerpt: String,
}

/// Nothing had to be changed.
pub(super) fn unchanged(path: &Path, content: &Content<'_>) -> ToolOutcome {
    let size = content.bytes().len() as u64;
    let version = version(path.to_string_lossy().into_owned(), (content.sha256(), size));
    let text = format!(
        "{} already holds exactly this content ({} bytes, SHA-256 {}); nothing was written",
        display::path(path),
        version.bytes,
        version.sha256
    );
    ToolOutcome::done(text, Facts::Observed(version))
}

fn version(path: String, (sha256, bytes): (Digest, u64)) -> FileVersion {
    FileVersion { path, sha256, bytes }
}

impl Report {
    pub(super) fn new(path: &Path, (before, made): (Option<&[u8]>, &Made)) -> Self {
        let after = &made.content;
        Self {
            path: display::path(path).into_owned(),
            remembered: path.to_string_lossy().into_owned(),
            what: made.what.clone(),
            lines: memchr::memchr_iter(b'\n', after).count()
                + usize::from(after.last().is_some_and(|last| *last != b'\n')),
            notes: Vec::new(),
            excerpt: before.map(|before| excerpt::of(before, after)).unwrap_or_default(),
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The outcome of the change.
    ///
    /// # Errors
    /// Where it was not made, or that can't be known.
    pub(super) fn outcome(
        self,
        change: &Change,
        done: Result<Done, NotRecorded>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let Done { write, commit } = done.map_err(|ends| {
            let why = format!("{} {}: {ends}; nothing was written", change.attempt(), self.path);
            ToolFailure::new(ToolErrorCode::NotApplied, why)
        })?;
        match commit {
            Commit::Applied { notes } => Ok(self.applied(&write, &notes)),
            Commit::NotApplied(refusal) => Err(refused(change, &refusal)),
            Commit::Indeterminate { why, observed, kept } => {
                let mut text = format!("{} {}: {why}", change.attempt(), self.path);
                match observed {
                    Some(Observed::File { sha256, bytes, .. }) => {
                        let _ = write!(text, "; it now has {bytes} bytes, SHA-256 {sha256}");
                    }
                    Some(Observed::Absent) => text.push_str("; no file is there now"),
                    Some(Observed::Other(kind)) => {
                        let _ = write!(text, "; {} is there now", kind.name());
                    }
                    None => text.push_str("; what is there now can't be seen"),
                }
                if let Some(name) = kept {
                    let _ = write!(text, "; another version was kept beside it as {name}");
                }
                text.push_str(". Read it, and tell the user before going on");
                Err(ToolFailure::new(ToolErrorCode::Indeterminate, text))
            }
        }
    }

    fn applied(self, write: &protocol::action::PreparedWrite, notes: &[String]) -> ToolOutcome {
        let mut text = format!("{}: {}\n", self.path, self.what);
        match write.before {
            Some(before) => {
                let _ = writeln!(text, "before: {} bytes, SHA-256 {before}", write.bytes.0);
            }
            None => text.push_str("before: no file\n"),
        }
        let plural = if self.lines == 1 { "line" } else { "lines" };
        let _ = writeln!(
            text,
            "after: {} bytes, {} {plural}, SHA-256 {}",
            write.bytes.1, self.lines, write.after
        );
        if let Some(innermost) = write.made_directories.last() {
            let count = write.made_directories.len();
            let plural = if count == 1 { "directory" } else { "directories" };
            let _ = writeln!(text, "[{count} {plural} made, up to {}]", display::path(innermost));
        }
        for note in notes.iter().chain(&self.notes) {
            let _ = writeln!(text, "[{note}]");
        }
        if !self.excerpt.is_empty() {
            text.push('\n');
            text.push_str(&self.excerpt);
        }
        let after = version(self.remembered, (write.after, write.bytes.1));
        ToolOutcome::done(text, Facts::Wrote { before: write.before, after })
    }
}
