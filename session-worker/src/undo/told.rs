//! What is told of an undo: the words of its receipt.

use std::{fmt::Write, io, path::Path};

use protocol::{
    action::Effect,
    digest::Digest,
    failure::ToolErrorCode,
    receipt::{Facts, FileVersion, NOT_KEPT},
};

use crate::executor::{
    atomic_write::{Commit, Observed, Refusal},
    display,
    outcome::{ToolFailure, ToolOutcome},
    versions::Content,
};

pub(super) fn failure(refusal: &Refusal) -> ToolFailure {
    ToolFailure::new(refusal.code(), refusal.to_string())
}

pub(super) fn refused(refusal: &Refusal) -> ToolOutcome {
    ToolOutcome::failed(&failure(refusal))
}

/// Something else stands there than what the undone action left.
pub(super) fn other(path: &Path, stands: Option<Digest>, now: Option<Content<'_>>) -> ToolOutcome {
    let path = display::path(path);
    let left = stands.map_or("no file".to_owned(), |digest| format!("SHA-256 {digest}"));
    let now = match now {
        Some(now) => format!("it now has {} bytes, SHA-256 {}", now.bytes().len(), now.sha256()),
        None => "no file is there now".to_owned(),
    };
    let text = format!("{path} is not as that action left it ({left}): {now}; nothing was changed");
    ToolOutcome::failed(&ToolFailure::new(ToolErrorCode::StaleRead, text))
}

pub(super) fn not_kept(error: &io::Error) -> String {
    format!("[{NOT_KEPT} ({error}), so this undo can't be undone itself]\n")
}

/// What became of the change that was recorded.
pub(super) fn outcome((path, effect): (&Path, &Effect), commit: Commit, note: Option<&str>) -> ToolOutcome {
    match commit {
        Commit::Applied { notes } => applied((path, effect), &notes, note),
        Commit::NotApplied(refusal) => refused(&refusal),
        Commit::Indeterminate { why, observed, kept } => {
            let mut text = format!("{}: {why}", display::path(path));
            text.push_str(&match observed {
                Some(Observed::File { sha256, bytes }) => {
                    format!("; it now has {bytes} bytes, SHA-256 {sha256}")
                }
                Some(Observed::Absent) => "; no file is there now".to_owned(),
                Some(Observed::Other(kind)) => format!("; {} is there now", kind.name()),
                None => "; what is there now can't be seen".to_owned(),
            });
            if let Some(name) = kept {
                let _ = write!(text, "; another version was kept beside it as {name}");
            }
            ToolOutcome::failed(&ToolFailure::new(ToolErrorCode::Indeterminate, text))
        }
    }
}

fn applied((path, effect): (&Path, &Effect), notes: &[String], note: Option<&str>) -> ToolOutcome {
    let shown = display::path(path);
    let version = |sha256, bytes| FileVersion { path: path.to_string_lossy().into_owned(), sha256, bytes };
    let (mut text, facts) = match effect {
        Effect::Write(write) => {
            let before = write.before.map_or("no file".to_owned(), |digest| format!("SHA-256 {digest}"));
            let text = format!(
                "{shown}: put back\nbefore: {before}\nafter: {} bytes, SHA-256 {}\n",
                write.bytes.1, write.after
            );
            (text, Facts::Wrote { before: write.before, after: version(write.after, write.bytes.1) })
        }
        Effect::Remove(removal) => {
            let (before, bytes) = (removal.before, removal.bytes);
            let text = format!("{shown}: taken away\nbefore: {bytes} bytes, SHA-256 {before}\n");
            (text, Facts::Removed(version(before, bytes)))
        }
        // An undo stages nothing else.
        Effect::Command { .. } | Effect::Subsession { .. } => (String::new(), Facts::None),
    };
    for note in notes {
        let _ = writeln!(text, "[{note}]");
    }
    text.push_str(note.unwrap_or_default());
    ToolOutcome::done(text, facts)
}
