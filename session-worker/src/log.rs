//! The worker's log: a file of the session's own.
//!
//! Invariant: it holds ids, counts and errors; no secret, no prompt, no reply, no result.

use std::{fs::OpenOptions, io, os::unix::fs::OpenOptionsExt, path::Path, sync::Mutex};

use tracing::Level;
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// Sends what is logged from now on to `worker.log` in the session's folder.
///
/// # Errors
/// Where the file can't be opened.
pub(crate) fn open(directory: &Path) -> io::Result<()> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(directory.join("worker.log"))?;
    // The libraries speak of what they carry; only their complaints are wanted.
    let levels = Targets::new().with_target("session_worker", Level::INFO).with_default(Level::ERROR);
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .with_writer(Mutex::new(file))
        .with_filter(levels);
    tracing_subscriber::registry().with(lines).try_init().map_err(io::Error::other)
}
