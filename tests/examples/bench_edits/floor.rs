//! What no durable edit can be faster than: its two records and its one replaced file, in a loop without anything else.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::PACE;

/// As many bytes as a record of a prepared write or of its receipt has.
const RECORD_BYTES: usize = 900;

/// A journal, and the folder whose file is replaced: the one in which the edits are, as what a new file costs differs from
/// folder to folder.
pub(crate) struct Floor {
    folder: PathBuf,
    directory: File,
    journal: File,
}

impl Floor {
    pub(crate) fn in_folder(folder: &Path, journal: &Path) -> Self {
        let journal = OpenOptions::new().create(true).append(true).open(journal).unwrap();
        Self { folder: folder.to_owned(), directory: File::open(folder).unwrap(), journal }
    }

    /// Append and fdatasync; write, fsync, rename and fsync of the directory; append and fdatasync.
    pub(crate) fn replace(&mut self, content: &[u8]) -> Duration {
        thread::sleep(PACE);
        let at = Instant::now();
        self.record();
        let staged = self.folder.join(".floor-staged");
        let mut file = File::create(&staged).unwrap();
        file.write_all(content).and_then(|()| file.sync_all()).unwrap();
        fs::rename(&staged, self.folder.join("floor")).unwrap();
        self.directory.sync_all().unwrap();
        self.record();
        at.elapsed()
    }

    fn record(&mut self) {
        self.journal.write_all(&[b'x'; RECORD_BYTES]).and_then(|()| self.journal.sync_data()).unwrap();
    }
}
