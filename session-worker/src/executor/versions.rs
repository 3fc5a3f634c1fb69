//! The contents that files had before and after each change: kept for showing and undoing it.
//!
//! One file per content in the session's folder, named by its SHA-256.
//! Keeping has two steps, so that the disk works on all that is to be synced at once: the contents are written, and
//! later they are waited for.
//! Making a file takes a file system longer than filling it: empty ones are made ahead, when nobody waits.
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
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use protocol::{
    digest::Digest,
    place::{self, UNFINISHED},
};

use super::sys;

/// Name of the folder in the session's own.
pub(crate) const FOLDER: &str = place::VERSIONS;

/// Files made ahead: for the contents before and after one change.
const SPARES: usize = 2;

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
    spares: Vec<Unfinished>,
    /// How many files were made: the next one's name.
    made: u64,
}

/// A file without a content's name.
#[derive(Debug)]
struct Unfinished {
    path: PathBuf,
    file: File,
}

/// A content and its digest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content<'c> {
    bytes: &'c [u8],
    sha256: Digest,
}

impl<'c> Content<'c> {
    /// These bytes.
    pub(crate) fn of(bytes: &'c [u8]) -> Self {
        Self { bytes, sha256: Digest::of(bytes) }
    }

    /// Bytes that were hashed before.
    pub(crate) const fn known(bytes: &'c [u8], sha256: Digest) -> Self {
        Self { bytes, sha256 }
    }

    /// The bytes.
    pub(crate) const fn bytes(&self) -> &'c [u8] {
        self.bytes
    }

    /// Their digest.
    pub(crate) const fn sha256(&self) -> Digest {
        self.sha256
    }
}

/// Contents that are written and not waited for. Dropped, those that were not there before are gone again.
#[derive(Debug)]
#[must_use]
pub(crate) struct Keeping<'v> {
    versions: &'v Versions,
    /// Always there.
    shelf: MutexGuard<'v, Option<Shelf>>,
    written: Vec<Written>,
}

/// A file under its unfinished name.
#[derive(Debug)]
struct Written {
    sha256: Digest,
    bytes: u64,
    place: Unfinished,
}

impl Versions {
    /// The contents in a session's folder, at most `limit` bytes of them.
    pub(crate) fn of_session(directory: &Path, limit: u64) -> Self {
        Self { folder: directory.join(FOLDER), limit, shelf: Mutex::new(None) }
    }

    /// Begins to keep these contents: writes those that are not there, and lets the disk begin with them.
    ///
    /// # Errors
    /// Where one can't be kept: the disk is full, or it is larger than all contents together may be.
    pub(crate) fn begin(&self, contents: &[Content<'_>]) -> io::Result<Keeping<'_>> {
        let mut keeping = Keeping { versions: self, shelf: self.open()?, written: Vec::new() };
        for content in contents {
            keeping.write(content)?;
        }
        Ok(keeping)
    }

    /// Keeps these contents durably beside those of the session's worker, which may keep others at the same time: nothing is
    /// dropped for them, and the next worker counts them in.
    ///
    /// # Errors
    /// Where one can't be kept.
    pub(crate) fn keep_beside(&self, contents: &[Content<'_>]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        for content in contents {
            let path = self.path(content.sha256);
            if path.exists() {
                continue;
            }
            // A name of this process's own: the worker may be writing the same content.
            let name = format!("{}.{}{UNFINISHED}", content.sha256, std::process::id());
            let unfinished = self.folder.join(name);
            let file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
            let written = file.and_then(|mut file| {
                file.write_all(content.bytes)?;
                file.sync_data()?;
                fs::rename(&unfinished, &path)
            });
            if let Err(error) = written {
                gone(fs::remove_file(&unfinished))?;
                return Err(error);
            }
        }
        File::open(&self.folder)?.sync_all()
    }

    /// Whether everything is ready for the next change.
    pub(crate) fn is_prepared(&self) -> bool {
        // Whoever holds it is about to need more.
        let Ok(shelf) = self.shelf.try_lock() else { return false };
        shelf.as_ref().is_some_and(|shelf| shelf.spares.len() == SPARES)
    }

    /// Makes ready for the next change. A failure is left for that change to meet.
    pub(crate) fn prepare(&self) {
        let Ok(mut guard) = self.open() else { return };
        let shelf = guard.get_or_insert_default();
        while shelf.spares.len() < SPARES
            && let Ok(spare) = self.make(shelf)
        {
            shelf.spares.push(spare);
        }
    }

    fn open(&self) -> io::Result<MutexGuard<'_, Option<Shelf>>> {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        if shelf.is_none() {
            *shelf = Some(self.look()?);
        }
        Ok(shelf)
    }

    fn make(&self, shelf: &mut Shelf) -> io::Result<Unfinished> {
        shelf.made += 1;
        let path = self.folder.join(format!("{}{UNFINISHED}", shelf.made));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok(Unfinished { path, file })
    }

    /// Makes room for so many bytes.
    fn make_room(&self, shelf: &mut Shelf, bytes: u64) -> io::Result<()> {
        while shelf.bytes + bytes > self.limit {
            let Some((oldest, freed)) = shelf.contents.pop_front() else { break };
            gone(fs::remove_file(self.folder.join(oldest.to_string())))?;
            shelf.bytes -= freed;
        }
        Ok(())
    }

    fn path(&self, sha256: Digest) -> PathBuf {
        self.folder.join(sha256.to_string())
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
            ..Shelf::default()
        })
    }
}

impl Keeping<'_> {
    fn write(&mut self, content: &Content<'_>) -> io::Result<()> {
        let Content { bytes, sha256 } = *content;
        if self.written.iter().any(|written| written.sha256 == sha256) || self.is_there(sha256) {
            return Ok(());
        }
        let size = bytes.len() as u64;
        if size > self.versions.limit {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let shelf = self.shelf.get_or_insert_default();
        let place = match shelf.spares.pop() {
            Some(spare) => spare,
            None => self.versions.make(shelf)?,
        };
        let mut file = &place.file;
        let written = file.write_all(bytes);
        sys::begin_write_out(file);
        // From here on it is removed if anything fails.
        self.written.push(Written { sha256, bytes: size, place });
        written
    }

    /// Whether the content is kept already; it is the newest then.
    fn is_there(&mut self, sha256: Digest) -> bool {
        let Some(shelf) = self.shelf.as_mut() else { return false };
        let Some(at) = shelf.contents.iter().rposition(|(kept, _)| *kept == sha256) else { return false };
        let again = shelf.contents.remove(at);
        shelf.contents.extend(again);
        // Only the order of dropping hangs on it.
        let _ = File::open(self.versions.path(sha256)).and_then(|file| file.set_modified(SystemTime::now()));
        true
    }

    /// Waits until the contents are on the disk, and gives them their names, durably.
    ///
    /// # Errors
    /// Where the disk is full or fails: then those that are not kept yet are gone again.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let fresh = !self.written.is_empty();
        for Written { place, .. } in &self.written {
            place.file.sync_data()?;
        }
        let versions = self.versions;
        let shelf = self.shelf.get_or_insert_default();
        while let Some(Written { sha256, bytes, place }) = self.written.first() {
            versions.make_room(shelf, *bytes)?;
            fs::rename(&place.path, versions.path(*sha256))?;
            shelf.contents.push_back((*sha256, *bytes));
            shelf.bytes += bytes;
            self.written.remove(0);
        }
        if fresh { File::open(&versions.folder)?.sync_all() } else { Ok(()) }
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        for Written { place, .. } in &self.written {
            // The next process would remove it anyway.
            let _ = fs::remove_file(&place.path);
        }
    }
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
