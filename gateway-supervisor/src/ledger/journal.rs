//! One session's journal: `STATE/sessions/<session>/journal`, a header and then records, only ever added to.
//!
//! All numbers are little-endian. The header has 64 bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 0–7 | `GWLEDGER` |
//! | 8–9 | format of the journal: 1 |
//! | 10–11 | zero |
//! | 12–27 | the 16 bytes of the session's id |
//! | 28–59 | zero |
//! | 60–63 | CRC-32 (IEEE) of bytes 0–59 |
//!
//! A record has a head of 52 bytes and a payload:
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | bytes of the payload: 1 to 8 MiB |
//! | 4–7 | CRC-32 (IEEE) of the whole record without these four bytes |
//! | 8–9 | format of the payload: 1 |
//! | 10–11 | zero; another value is a newer release's |
//! | 12–19 | the record's number, from 1 without a gap |
//! | 20–51 | SHA-256 of the whole record before this one, of the header for the first |
//! | 52– | the payload: a [`Record`](super::record::Record) as JSON, in UTF-8 |
//!
//! Header and heads keep these places in every format, so that any release can tell damage from what is merely newer.
//!
//! **What a reader makes of it.** A bad record (its length is impossible, it goes past the end, its checksum is wrong) with no
//! valid record at any byte behind it is a torn tail: what a crash leaves of a write that was never acknowledged. It is cut,
//! unless the index remembers that record as durable. Everything else is damage and is reported with the record's number and
//! its first byte: a bad record with a valid one behind it, a number out of order, a broken chain, an end before what the
//! index remembers. A whole record that this release can't read was written by a newer one: the session can't be used until
//! that release is back, and the file is not touched, not even to cut a torn tail.
//!
//! Invariant: a journal is written here alone; a record that was synced is never overwritten and never cut.
//! Invariant: a failed sync is never tried again: the system may have dropped what it could not write.
#![expect(clippy::disallowed_methods, reason = "a journal's file is made and put in its place here")]

pub(in crate::ledger) mod format;
pub(in crate::ledger) mod reader;

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{crash, id::SessionId};

use self::reader::Position;
use super::error::{Damage, LedgerError};
use crate::skill::FOLDER as SKILLS;

/// The journal's name in the session's folder.
pub(in crate::ledger) const NAME: &str = "journal";

/// Its name until it is whole. Left behind only by a creation that was never acknowledged.
pub(in crate::ledger) const UNFINISHED: &str = "journal.new";

/// A journal that is open for writing.
#[derive(Debug)]
pub(in crate::ledger) struct Journal {
    file: Arc<File>,
    path: PathBuf,
    /// Where the next record goes. What stands before it was written, though perhaps not synced yet.
    pub position: Position,
}

impl Journal {
    /// Makes a session's folder in `sessions` and its journal with `records`, all durable when it returns.
    pub(in crate::ledger) fn create(
        sessions: &Path,
        session: SessionId,
        payloads: &[Vec<u8>],
    ) -> Result<Self, LedgerError> {
        let folder = sessions.join(session.to_string());
        let path = folder.join(NAME);
        if path.exists() {
            return Err(LedgerError::Exists(session));
        }
        let mut bytes = format::header(session).to_vec();
        let mut position = Position::first(session);
        for payload in payloads {
            position.write(payload, &mut bytes);
        }
        let made = make_private_directory(&folder)
            .and_then(|()| write_durably(&folder, &bytes))
            .and_then(|file| sync_directory(sessions).map(|()| file));
        match made {
            Ok(file) => Ok(Self { file: Arc::new(file), path, position }),
            Err(error) => {
                // Nobody was told of this session, so there is none.
                let _ = fs::remove_file(&path);
                remove_unfinished(&folder);
                Err(LedgerError::io("making the journal", path, &error))
            }
        }
    }

    /// Opens a session's journal to go on at `position`.
    pub(in crate::ledger) fn open(
        sessions: &Path,
        session: SessionId,
        position: Position,
    ) -> Result<Self, LedgerError> {
        let path = sessions.join(session.to_string()).join(NAME);
        let opened =
            OpenOptions::new().read(true).write(true).open(&path).and_then(|f| Ok((f.metadata()?.len(), f)));
        let (length, file) = opened.map_err(|error| LedgerError::io("opening", &path, &error))?;
        if length != position.length {
            let what = format!("the file has {length} bytes where {} were recorded", position.length);
            return Err(Damage { session, record: position.records, byte: length, what }.into());
        }
        Ok(Self { file: Arc::new(file), path, position })
    }

    /// The open file, to be synced.
    pub(in crate::ledger) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Where the file is.
    pub(in crate::ledger) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes records that end at `end`. They are not durable before the next sync.
    pub(in crate::ledger) fn write(&mut self, bytes: &[u8], end: Position) -> Result<(), WriteFailure> {
        match self.file.write_all_at(bytes, self.position.length) {
            Ok(()) => {
                self.position = end;
                Ok(())
            }
            Err(error) => {
                // A full disk must not cost the session more than this write: what was written of it is taken back.
                let taken_back =
                    self.file.set_len(self.position.length).and_then(|()| self.file.sync_data()).is_ok();
                Err(WriteFailure { error, taken_back })
            }
        }
    }
}

/// A write that failed.
#[derive(Debug)]
pub(in crate::ledger) struct WriteFailure {
    /// Why.
    pub error: io::Error,
    /// Whether the file is again as it was before.
    pub taken_back: bool,
}

/// Cuts a torn tail off.
pub(in crate::ledger) fn cut(path: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(length)?;
    file.sync_all()
}

/// Makes durable what a reader found behind the first `from` bytes: it may have been written and never synced.
///
/// The bytes are written again first, because a system that failed to write them may take them for written.
pub(in crate::ledger) fn make_durable(path: &Path, from: u64) -> io::Result<()> {
    const CHUNK: usize = 1 << 20;
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let (mut at, end) = (from, file.metadata()?.len());
    let mut chunk = Vec::new();
    while at < end {
        chunk.resize(CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK)), 0);
        file.read_exact_at(&mut chunk, at)?;
        file.write_all_at(&chunk, at)?;
        at += chunk.len() as u64;
    }
    file.sync_all()
}

/// Makes a directory that only this user may enter, whatever the umask; one that is there already is made so.
pub(in crate::ledger) fn make_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Syncs a directory, so that what was made or renamed in it stays.
pub(in crate::ledger) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn write_durably(folder: &Path, bytes: &[u8]) -> io::Result<File> {
    let unfinished = folder.join(UNFINISHED);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    crash::point("supervisor-before-creation");
    fs::rename(&unfinished, folder.join(NAME))?;
    crash::point("supervisor-after-creation");
    sync_directory(folder)?;
    Ok(file)
}

/// Removes what an unfinished creation left. A folder with anything else in it is left alone.
pub(in crate::ledger) fn remove_unfinished(folder: &Path) {
    let ours = |name: &OsStr| name == UNFINISHED || name == SKILLS;
    let Ok(found) = fs::read_dir(folder) else { return };
    if !found.flatten().all(|entry| ours(&entry.file_name())) {
        return;
    }
    // Texts that were kept for a session that nobody was told of.
    let _ = fs::remove_dir_all(folder.join(SKILLS));
    let _ = fs::remove_file(folder.join(UNFINISHED));
    let _ = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests;
