//! The state directory: one user's, one supervisor's.
//!
//! Invariant: nothing in it is read or written before the lock is held.

use std::{
    fs::{self, File, OpenOptions, Permissions, TryLockError},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{error::LedgerError, journal};

/// The lock's name. Its content means nothing; the kernel lets go of it when the process ends, in whatever way.
const LOCK: &str = "supervisor.lock";

/// A process that is about to become another program has done so within this time, on a busy machine too.
const LET_GO: Duration = Duration::from_secs(2);

/// Between two tries.
const AGAIN: Duration = Duration::from_millis(10);

/// A state directory that this process holds, and no other.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
    /// Held by being open.
    _lock: File,
}

impl StateDir {
    /// Makes the directory where there is none, makes it private, and takes its lock.
    pub(super) fn claim(path: &Path) -> Result<Self, LedgerError> {
        make_private(path)?;
        let lock = path.join(LOCK);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&lock)
            .map_err(|error| LedgerError::io("opening the lock", &lock, &error))?;
        take(&file, lock.clone())?;
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(|error| LedgerError::io("making private the lock", &lock, &error))?;
        let claimed = Self { path: path.to_owned(), _lock: file };
        make_private(&claimed.sessions())?;
        journal::sync_directory(path).map_err(|error| LedgerError::io("syncing", path, &error))?;
        Ok(claimed)
    }

    /// Where the sessions' folders are.
    pub(super) fn sessions(&self) -> PathBuf {
        self.path.join("sessions")
    }

    /// Where the index is.
    pub(super) fn index(&self) -> PathBuf {
        self.path.join("index")
    }
}

/// Takes the lock. A supervisor that was killed in the moment in which it started a program leaves a copy of the lock in that
/// program's process, until it has become the program: so one that is held is asked for again for a while.
fn take(file: &File, lock: PathBuf) -> Result<(), LedgerError> {
    let until = Instant::now() + LET_GO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(AGAIN),
            Err(TryLockError::WouldBlock) => return Err(LedgerError::AlreadyRunning { lock }),
            Err(TryLockError::Error(error)) => return Err(LedgerError::io("locking", &lock, &error)),
        }
    }
}

/// Makes a directory, or an existing one, this user's alone.
fn make_private(path: &Path) -> Result<(), LedgerError> {
    let refused = |reason: String| Err(LedgerError::Refused { path: path.to_owned(), reason });
    let own = nix::unistd::geteuid().as_raw();
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => return refused("it is not a directory; move it away".to_owned()),
        Ok(found) if found.uid() != own => {
            return refused(format!(
                "it belongs to user {} and the gateway runs as user {own}; choose another directory",
                found.uid()
            ));
        }
        Ok(_) | Err(_) => {}
    }
    if let Err(error) = journal::make_private_directory(path) {
        return refused(format!("it can't be made private to this user ({error}); run chmod 700 on it"));
    }
    // Some file systems take a mode and keep another.
    match fs::metadata(path) {
        Ok(made) if made.mode() & 0o077 == 0 => Ok(()),
        Ok(made) => refused(format!(
            "others can enter it (mode {:o}) and its file system keeps it so; choose another directory",
            made.mode() & 0o777
        )),
        Err(error) => Err(LedgerError::io("looking at", path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_lock_that_is_let_go_of_in_a_moment_is_waited_for_and_another_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let held = StateDir::claim(folder.path()).unwrap();
        assert!(matches!(StateDir::claim(folder.path()), Err(LedgerError::AlreadyRunning { .. })));
        let (begun, beginning) = mpsc::channel();
        let waiting = thread::scope(|scope| {
            let path = folder.path();
            let waiting = scope.spawn(move || {
                begun.send(()).unwrap();
                StateDir::claim(path).map(drop)
            });
            beginning.recv().unwrap();
            thread::sleep(AGAIN * 10);
            drop(held);
            waiting.join().unwrap()
        });
        assert!(waiting.is_ok(), "{waiting:?}");
    }
}
