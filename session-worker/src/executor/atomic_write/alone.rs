//! Writers of this gateway replace files of one directory one after the other, whatever session they belong to: so each
//! sees what the other did, and says `stale_read` where it had not seen it. No other program takes notice.
//!
//! Invariant: it is a courtesy, never a wall. The exchange itself is judged in any case, and nobody waits for ever.

use std::{
    fs::{File, TryLockError},
    thread,
    time::{Duration, Instant},
};

/// A replacement takes some milliseconds. Whoever holds a directory longer is no writer of ours, or one that was stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two tries.
const AGAIN: Duration = Duration::from_micros(200);

/// A directory in which no other writer of this gateway replaces a file, as long as this lives.
#[derive(Debug)]
pub(super) struct Alone<'a>(Option<&'a File>);

impl<'a> Alone<'a> {
    /// Waits until the directory is free, or no longer.
    pub(super) fn within(directory: &'a File) -> Self {
        let until = Instant::now() + PATIENCE;
        loop {
            match directory.try_lock() {
                Ok(()) => return Self(Some(directory)),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(AGAIN),
                // Held for too long, or a file system that knows no locks.
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return Self(None),
            }
        }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if let Some(directory) = self.0 {
            // It ends with the handle in any case.
            let _ = directory.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_are_never_in_one_directory_at_once_and_neither_waits_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::open(folder.path()).unwrap();
        let (one, other) = (open(), open());
        let alone = Alone::within(&one);
        assert!(alone.0.is_some());
        assert!(Alone::within(&other).0.is_none(), "it gave up");
        drop(alone);
        assert!(Alone::within(&other).0.is_some());
        assert!(Alone::within(&one).0.is_some());
    }
}
