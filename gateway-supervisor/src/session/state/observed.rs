//! What the session has read or written of each file: told to every new process of it, which may then write on.

use std::{collections::HashMap, path::Path};

use protocol::{
    action::{Effect, Prepared},
    limits::OBSERVED_FILES,
    receipt::{Facts, FileVersion, Receipt},
};

/// The newest observed content of each file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    /// With the number of the observation, which tells older from newer.
    files: HashMap<String, (u64, FileVersion)>,
    observations: u64,
}

impl Observed {
    /// Takes in what a receipt proves.
    pub(super) fn receipt(&mut self, receipt: &Receipt) {
        match &receipt.facts {
            Facts::Observed(version) | Facts::Wrote { after: version, .. } => self.note(version.clone()),
            Facts::None | Facts::Ran(_) | Facts::Removed(_) => {}
        }
    }

    /// Takes in a write that was found to have happened.
    pub(super) fn applied(&mut self, root: &Path, prepared: &Prepared) {
        match &prepared.effect {
            Effect::Write(write) => self.note(FileVersion {
                path: root.join(&write.path).to_string_lossy().into_owned(),
                sha256: write.after,
                bytes: write.bytes.1,
            }),
            Effect::Command { .. } | Effect::Subsession { .. } | Effect::Remove(_) => {}
        }
    }

    fn note(&mut self, version: FileVersion) {
        self.observations += 1;
        self.files.insert(version.path.clone(), (self.observations, version));
    }

    /// The newest contents, the oldest of them first; the very oldest are left out where there are too many.
    pub(crate) fn newest(&self) -> Vec<FileVersion> {
        let mut all: Vec<_> = self.files.values().collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        let left_out = all.len().saturating_sub(OBSERVED_FILES);
        all.into_iter().skip(left_out).map(|(_, version)| version.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use protocol::{action::PreparedWrite, digest::Digest, id::ActionId, timestamp::Timestamp};

    use super::*;

    fn version(path: &str, content: &[u8]) -> FileVersion {
        FileVersion { path: path.to_owned(), sha256: Digest::of(content), bytes: content.len() as u64 }
    }

    #[test]
    fn the_newest_content_of_each_file_is_told_in_order() {
        let mut observed = Observed::default();
        let mut receipt = |facts| {
            let receipt = Receipt {
                action_id: ActionId::mint(),
                began_at: Timestamp(1),
                ended_at: Timestamp(1),
                error: None,
                is_error: false,
                content: String::new(),
                facts,
            };
            observed.receipt(&receipt);
        };
        receipt(Facts::Observed(version("/r/a", b"1")));
        receipt(Facts::Observed(version("/r/b", b"2")));
        receipt(Facts::Wrote { before: None, after: version("/r/a", b"3") });
        receipt(Facts::None);
        let write = PreparedWrite {
            path: "c/d".into(),
            before: None,
            after: Digest::of(b"4"),
            bytes: (0, 1),
            temporary: String::new(),
            made_directories: Vec::new(),
        };
        let prepared =
            Prepared { action_id: ActionId::mint(), prepared_at: Timestamp(1), effect: Effect::Write(write) };
        observed.applied(Path::new("/r"), &prepared);
        assert_eq!(
            observed.newest(),
            [version("/r/b", b"2"), version("/r/a", b"3"), version("/r/c/d", b"4")]
        );
    }
}
