//! The worker's log: a file of the session's own.
//!
//! Invariant: it holds ids, counts and errors; no secret, no prompt, no reply, no result.

use std::{fs::OpenOptions, io, os::unix::fs::OpenOptionsExt, path::Path, sync::Mutex};

use tracing::Level;

/// Sends what is logged from now on to `worker.log` in the session's folder.
///
/// # Errors
/// Where the file can't be opened.
pub(crate) fn open(directory: &Path) -> io::Result<()> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(directory.join("worker.log"))?;
    tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .with_target(false)
        .with_writer(Mutex::new(file))
        .try_init()
        .map_err(io::Error::other)
}
