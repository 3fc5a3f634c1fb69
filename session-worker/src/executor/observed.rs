//! What the session knows of the project's files: the newest content of each that it has read or written (X6).
//!
//! Invariant: it is built from durable receipts alone: what nobody recorded was not observed.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::{
    digest::Digest,
    receipt::{Facts, FileVersion, Receipt},
};

/// The newest observed content of each file. A clone is the same knowledge.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observations(Arc<Mutex<HashMap<String, Digest>>>);

impl Observations {
    /// What earlier processes of the session observed, oldest first.
    pub(crate) fn of_earlier(versions: &[FileVersion]) -> Self {
        let known = versions.iter().map(|version| (version.path.clone(), version.sha256)).collect();
        Self(Arc::new(Mutex::new(known)))
    }

    /// Takes in what a durable receipt proves.
    pub(crate) fn note(&self, receipt: &Receipt) {
        let version = match &receipt.facts {
            Facts::Observed(version) | Facts::Wrote { after: version, .. } => version,
            Facts::None | Facts::Ran(_) | Facts::Removed(_) => return,
        };
        self.known().insert(version.path.clone(), version.sha256);
    }

    /// The newest observed content of the file with this canonical path.
    pub(crate) fn newest(&self, path: &Path) -> Option<Digest> {
        self.known().get(path.to_string_lossy().as_ref()).copied()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use protocol::{id::ActionId, timestamp::Timestamp};

    use super::*;

    fn version(path: &str, content: &[u8]) -> FileVersion {
        FileVersion { path: path.to_owned(), sha256: Digest::of(content), bytes: content.len() as u64 }
    }

    fn receipt(facts: Facts) -> Receipt {
        Receipt {
            action_id: ActionId::mint(),
            began_at: Timestamp(1),
            ended_at: Timestamp(2),
            error: None,
            is_error: false,
            content: String::new(),
            facts,
        }
    }

    #[test]
    fn the_newest_content_counts_whoever_saw_it() {
        let known =
            Observations::of_earlier(&[version("/a", b"1"), version("/b", b"1"), version("/a", b"2")]);
        let newest = |path| known.newest(Path::new(path));
        assert_eq!(newest("/a"), Some(Digest::of(b"2")));
        known.note(&receipt(Facts::Observed(version("/a", b"3"))));
        known.note(&receipt(Facts::Wrote { before: None, after: version("/c", b"4") }));
        known.note(&receipt(Facts::None));
        assert_eq!(newest("/a"), Some(Digest::of(b"3")));
        assert_eq!(newest("/b"), Some(Digest::of(b"1")));
        assert_eq!(newest("/c"), Some(Digest::of(b"4")));
        assert_eq!(newest("/d"), None);
    }
}
