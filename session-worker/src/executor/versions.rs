//! The contents that files had before and after each change: kept for showing and undoing it.
//!
//! One file per content in the session's folder, named by its SHA-256.
//! Invariant: a content has its name only once it is whole and synced.
//! Invariant: together they stay within their limit: the oldest, by when they were last needed, go first.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that changes names in the session's folder of versions"
)]

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use protocol::{
    digest::Digest,
    place::{self, UNFINISHED},
};

/// Name of the folder in the session's own.
pub(crate) const FOLDER: &str = place::VERSIONS;

/// The contents that one session keeps.
#[derive(Debug)]
pub(crate) struct Versions {
    folder: PathBuf,
    limit: u64,
    /// Looked up when it is first needed.
    shelf: Mutex<Option<Shelf>>,
}

/// What is there, the oldest first.
#[derive(Debug, Default)]
struct Shelf {
    contents: VecDeque<(Digest, u64)>,
    bytes: u64,
}

impl Versions {
    /// The contents in a session's folder, at most `limit` bytes of them.
    pub(crate) fn of_session(directory: &Path, limit: u64) -> Self {
        Self { folder: directory.join(FOLDER), limit, shelf: Mutex::new(None) }
    }

    /// Keeps these contents durably.
    ///
    /// # Errors
    /// Where one can't be kept: the disk is full, or it is larger than all contents together may be.
    pub(crate) fn keep(&self, contents: &[(Digest, &[u8])]) -> io::Result<()> {
        let mut guard = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = match &mut *guard {
            Some(shelf) => shelf,
            none => none.insert(self.look()?),
        };
        let mut fresh = false;
        for (digest, content) in contents {
            fresh |= self.keep_one(shelf, *digest, content)?;
        }
        if fresh { File::open(&self.folder)?.sync_all() } else { Ok(()) }
    }

    /// Whether the content was not there before.
    fn keep_one(&self, shelf: &mut Shelf, digest: Digest, content: &[u8]) -> io::Result<bool> {
        let path = self.folder.join(digest.to_string());
        if let Some(at) = shelf.contents.iter().rposition(|(kept, _)| *kept == digest) {
            let again = shelf.contents.remove(at);
            shelf.contents.extend(again);
            // Only the order of dropping hangs on it.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(false);
        }
        let bytes = content.len() as u64;
        if bytes > self.limit {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        while shelf.bytes + bytes > self.limit {
            let Some((oldest, freed)) = shelf.contents.pop_front() else { break };
            gone(fs::remove_file(self.folder.join(oldest.to_string())))?;
            shelf.bytes -= freed;
        }
        let unfinished = self.folder.join(format!("{digest}{UNFINISHED}"));
        let written = write_synced(&unfinished, content).and_then(|()| fs::rename(&unfinished, &path));
        if let Err(error) = written {
            // It would be written over the next time anyway.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        shelf.contents.push_back((digest, bytes));
        shelf.bytes += bytes;
        Ok(true)
    }

    /// Makes the folder, clears up what a crash left unfinished, and lists the rest.
    fn look(&self) -> io::Result<Shelf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(UNFINISHED) {
                gone(fs::remove_file(entry.path()))?;
            } else if let Ok(digest) = name.parse::<Digest>() {
                let metadata = entry.metadata()?;
                found.push((metadata.modified()?, digest, metadata.len()));
            }
        }
        found.sort_unstable();
        Ok(Shelf {
            bytes: found.iter().map(|(_, _, bytes)| bytes).sum(),
            contents: found.into_iter().map(|(_, digest, bytes)| (digest, bytes)).collect(),
        })
    }
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_data()
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
