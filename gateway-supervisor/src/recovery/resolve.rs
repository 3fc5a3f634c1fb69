//! The decision: the record of what was prepared against what was found.
//!
//! Invariant: pure and total; nothing is run again to find out.

use protocol::{
    action::{Effect, Prepared, Resolution},
    digest::Digest,
};

/// What was found where a prepared effect would show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Observed {
    /// No file is there.
    Absent,
    /// A file with this content is there.
    Content(Digest),
    /// What is there can't be read, for this reason.
    Unreadable(String),
    /// There is nothing that would show it.
    Nothing,
}

/// What an interrupted action did.
pub(crate) fn resolve(prepared: &Prepared, observed: &Observed) -> (Resolution, String) {
    match &prepared.effect {
        Effect::Write(write) => changed((write.before, Some(write.after)), observed),
        Effect::Remove(removal) => changed((Some(removal.before), None), observed),
        Effect::Command { .. } => {
            (Resolution::Indeterminate, "a command without a receipt: what it did can't be told".to_owned())
        }
        Effect::Subsession { .. } => (
            // What it did are actions of its own, each with a record of its own.
            Resolution::Applied,
            "the sub-session was begun; what became of it is told with it".to_owned(),
        ),
    }
}

/// A file that was to change from one content to another; none is no file.
fn changed((before, after): (Option<Digest>, Option<Digest>), observed: &Observed) -> (Resolution, String) {
    let (found, text) = match observed {
        Observed::Absent => (None, "no file is there".to_owned()),
        Observed::Content(digest) => (Some(*digest), format!("the file's content is {digest}")),
        Observed::Unreadable(reason) => {
            return (Resolution::Indeterminate, format!("the file can't be read: {reason}"));
        }
        Observed::Nothing => return (Resolution::Indeterminate, "nobody looked at the file".to_owned()),
    };
    if found == after {
        (Resolution::Applied, text)
    } else if found == before {
        (Resolution::NotApplied, text)
    } else {
        (Resolution::Indeterminate, format!("{text}, which is neither the one before nor the one after"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use protocol::{
        action::{PreparedRemoval, PreparedWrite},
        id::ActionId,
        timestamp::Timestamp,
    };

    use super::*;

    fn write(before: Option<Digest>, after: Digest) -> Prepared {
        Prepared {
            action_id: ActionId::mint(),
            prepared_at: Timestamp(1),
            effect: Effect::Write(PreparedWrite {
                path: PathBuf::from("a"),
                before,
                after,
                bytes: (0, 0),
                temporary: "t".into(),
                made_directories: vec![],
            }),
        }
    }

    #[test]
    fn every_pair_of_record_and_finding() {
        let (old, new, other) = (Digest::of(b"old"), Digest::of(b"new"), Digest::of(b"other"));
        let unreadable = || Observed::Unreadable("denied".into());
        for (before, observed, expected) in [
            (Some(old), Observed::Content(new), Resolution::Applied),
            (Some(old), Observed::Content(old), Resolution::NotApplied),
            (Some(old), Observed::Content(other), Resolution::Indeterminate),
            (Some(old), Observed::Absent, Resolution::Indeterminate),
            (Some(old), unreadable(), Resolution::Indeterminate),
            (Some(old), Observed::Nothing, Resolution::Indeterminate),
            (None, Observed::Content(new), Resolution::Applied),
            (None, Observed::Absent, Resolution::NotApplied),
            (None, Observed::Content(other), Resolution::Indeterminate),
            // A write that changes nothing is there in any case.
            (Some(new), Observed::Content(new), Resolution::Applied),
        ] {
            assert_eq!(resolve(&write(before, new), &observed).0, expected, "{before:?} {observed:?}");
        }
        for (observed, expected) in [
            (Observed::Absent, Resolution::Applied),
            (Observed::Content(old), Resolution::NotApplied),
            (Observed::Content(other), Resolution::Indeterminate),
            (unreadable(), Resolution::Indeterminate),
        ] {
            let removal = PreparedRemoval {
                path: PathBuf::from("a"),
                before: old,
                bytes: 3,
                mode: 0o644,
                temporary: "t".into(),
                directories: vec![],
            };
            let prepared = Prepared { effect: Effect::Remove(removal), ..write(None, new) };
            assert_eq!(resolve(&prepared, &observed).0, expected, "{observed:?}");
        }
        let command = Prepared {
            effect: Effect::Command { argv: vec!["true".into()], cwd: PathBuf::from("/") },
            ..write(None, new)
        };
        assert_eq!(resolve(&command, &Observed::Nothing).0, Resolution::Indeterminate);
    }
}
