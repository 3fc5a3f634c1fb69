//! Opening sled so that nothing it does can keep the gateway from starting.
//!
//! Known of sled 0.34.7: killed while it writes a snapshot it never opens again until that file is gone; it panics on some
//! damage; it hangs on a full disk; its flush does not reach the disk. None of that may matter, because the index can always
//! be made anew.
//!
//! Invariant: called only while the state directory's lock is held.
#![expect(
    clippy::disallowed_methods,
    reason = "the guard that opens the index, and moves a broken one aside"
)]

use std::{
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

use protocol::timestamp::Timestamp;

use super::journal::{make_private_directory, sync_directory};

/// How long sled may take to open, read or close: it takes milliseconds, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Cache of sled: all of it is read once at the start, and then only written.
const CACHE_BYTES: u64 = 1 << 20;

/// An index that was set aside keeps this before the moment at which it was.
const SET_ASIDE: &str = "index.damaged-";

/// Keys and values, as they lie in the database.
pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Opens the database and reads all of it; where that fails, sets it aside and makes a new one.
pub(super) fn open(path: &Path) -> Result<(sled::Db, Pairs), String> {
    match attempt(path) {
        Ok(opened) => Ok(opened),
        // It can't be opened without writing; it is as good as ever once there is room again.
        Err(Refusal::DiskFull(reason)) => Err(reason),
        Err(Refusal::Broken(reason)) => {
            tracing::warn!(%reason, "the index can't be opened; it is set aside and made anew from the journals");
            set_aside(path).map_err(|error| format!("setting aside the index: {error}"))?;
            attempt(path).map_err(Refusal::into_reason)
        }
    }
}

/// Why the database does not work.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is no room on the disk.
    DiskFull(String),
    /// Anything else.
    Broken(String),
}

impl Refusal {
    /// The reason in words.
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::DiskFull(reason) | Self::Broken(reason) => reason,
        }
    }
}

impl From<sled::Error> for Refusal {
    fn from(error: sled::Error) -> Self {
        let reason = error.to_string();
        match error {
            sled::Error::Io(cause) if cause.kind() == io::ErrorKind::StorageFull => Self::DiskFull(reason),
            sled::Error::Io(_)
            | sled::Error::CollectionNotFound(_)
            | sled::Error::Unsupported(_)
            | sled::Error::ReportableBug(_)
            | sled::Error::Corruption { .. } => Self::Broken(reason),
        }
    }
}

fn attempt(path: &Path) -> Result<(sled::Db, Pairs), Refusal> {
    prepare(path).map_err(|error| Refusal::from(sled::Error::Io(error)))?;
    let path = path.to_owned();
    limited("opening the index", move || {
        let database = sled::Config::new()
            .path(&path)
            // Without this it syncs twice a second for ever, also when nothing happens.
            .flush_every_ms(None)
            .cache_capacity(CACHE_BYTES)
            .open()?;
        let pairs = database
            .iter()
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect::<Result<_, _>>()?;
        for file in ["conf", "db"] {
            fs::File::open(path.join(file))?.sync_all()?;
        }
        sync_directory(&path)?;
        Ok((database, pairs))
    })
}

fn prepare(path: &Path) -> io::Result<()> {
    make_private_directory(path)?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Keeps the newest damaged index for whoever wants to know what happened, and no more of them.
fn set_aside(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(SET_ASIDE) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    fs::rename(path, folder.join(format!("{SET_ASIDE}{}", Timestamp::now().0)))
}

/// Closes the database, unless that hangs.
pub(super) fn close(database: sled::Db) {
    if let Err(refusal) = limited("closing the index", move || {
        drop(database);
        Ok(())
    }) {
        tracing::warn!(reason = refusal.into_reason(), "the index was not closed in good order");
    }
}

/// Does something with the database on this thread; a panic is an error.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, sled::Error>) -> Result<T, Refusal> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(Refusal::from),
        Err(_) => Err(Refusal::Broken("the database panicked".to_owned())),
    }
}

/// Does something with the database on a thread of its own, which is left behind where it hangs.
fn limited<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, sled::Error> + Send + 'static,
) -> Result<T, Refusal> {
    let (done, result) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("index-guard".to_owned())
        .spawn(move || {
            let _ = done.send(caught(work));
        })
        .map_err(|error| Refusal::Broken(format!("{what}: {error}")))?;
    // A thread that ended without an answer could not be caught either; both are the same here.
    result
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(Refusal::Broken(format!("{what} took longer than {} s", PATIENCE.as_secs()))))
}
