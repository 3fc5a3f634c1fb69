//! The worker's socket: who may come in.
//!
//! Invariant: a socket that somebody listens on is never taken over; only a dead leftover is removed, after a probe.
//! Invariant: at the end the worker removes its own socket and never a successor's.
#![expect(clippy::disallowed_methods, reason = "the worker's own socket")]

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use interprocess::local_socket::{
    ConnectOptions, GenericFilePath, ListenerOptions, ToFsName,
    tokio::{Listener as Socket, Stream},
    traits::{StreamCommon, tokio::Listener as _},
};
use protocol::{
    id::SessionId,
    secret::Secret,
    wire::hello::{self, Role},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Handshakes at the same time: one supervisor comes, and perhaps its successor; anybody else waits.
const HANDSHAKES: usize = 4;

/// The other end proved that it is this session's supervisor.
#[derive(Debug)]
pub(crate) struct Proven {
    /// The connection.
    pub(crate) stream: Stream,
}

/// The worker's socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    path: PathBuf,
    /// Device and inode of the socket's file: what has the name later may be another's.
    file: (u64, u64),
}

/// Whom the worker lets in.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    /// The session.
    pub(crate) session_id: SessionId,
    /// The key that both ends know.
    pub(crate) key: Secret<[u8; 32]>,
}

impl Listener {
    /// Listens at `path`.
    ///
    /// # Errors
    /// Where the folder can't be made, somebody listens there already, or the name is too long for a socket.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        remove_dead(path)?;
        let socket = ListenerOptions::new()
            .name(path.to_fs_name::<GenericFilePath>()?)
            .reclaim_name(false)
            .create_tokio()?;
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { socket, path: path.to_owned(), file: (metadata.dev(), metadata.ino()) })
    }

    /// Lets supervisors in for as long as somebody takes them from the other end of `proven`.
    pub(crate) async fn admit(&self, admission: Admission, proven: mpsc::Sender<Proven>) {
        let handshakes = std::sync::Arc::new(Semaphore::new(HANDSHAKES));
        loop {
            let Ok(permit) = std::sync::Arc::clone(&handshakes).acquire_owned().await else { return };
            match self.socket.accept().await {
                Ok(stream) => {
                    tokio::spawn(prove(stream, admission.clone(), proven.clone(), permit));
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection on the link failed");
                    // Out of descriptors: there is nothing to do but to let others finish.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.file);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "removing the worker's socket failed");
        }
    }
}

async fn prove(
    mut stream: Stream,
    admission: Admission,
    proven: mpsc::Sender<Proven>,
    permit: OwnedSemaphorePermit,
) {
    let own = nix::unistd::geteuid().as_raw();
    match stream.peer_creds().map(|creds| creds.euid()) {
        Ok(Some(peer)) if peer == own => {}
        Ok(_) => return tracing::warn!("a connection on the link came from another user"),
        Err(error) => return tracing::warn!(%error, "asking who connected to the link failed"),
    }
    let shaken = hello::exchange(&mut stream, Role::Worker, admission.session_id, &admission.key).await;
    drop(permit);
    match shaken {
        // Every release so far speaks the same minor version.
        Ok(_minor) => {
            // The loop is gone only when the process ends.
            let _ = proven.send(Proven { stream }).await;
        }
        Err(error) => tracing::warn!(%error, "a connection on the link did not prove itself"),
    }
}

/// Removes a socket's file that nobody listens on any more.
fn remove_dead(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something that is no socket has its name",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    match ConnectOptions::new().name(path.to_fs_name::<GenericFilePath>()?).connect_sync() {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another worker listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn only_a_dead_leftover_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/w.sock");
        let first = Listener::bind(&path).unwrap();
        assert_eq!(Listener::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists(), "its own socket is gone");
        // A listener that dies without clearing up.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let second = Listener::bind(&path).unwrap();
        // A successor's file under the same name stays.
        fs::remove_file(&path).unwrap();
        let successor = UnixListener::bind(&path).unwrap();
        drop(second);
        assert!(path.exists());
        drop(successor);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        assert_eq!(Listener::bind(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"a file");
    }
}
