//! Clearing up: the one place where the supervisor removes anything.
#![expect(clippy::disallowed_methods, reason = "the one place that clears a session up")]

use std::{
    io,
    path::{Path, PathBuf},
};

/// Removes a file, if it is there. A failure is logged: what is left is in the way of nobody.
pub(crate) async fn file(path: PathBuf) {
    remove(path, |path| std::fs::remove_file(path)).await;
}

/// Removes a folder of the gateway's own and what is in it, if it is there. Links in it are removed, not followed.
pub(crate) async fn folder(path: PathBuf) {
    remove(path, |path| std::fs::remove_dir_all(path)).await;
}

async fn remove(path: PathBuf, how: fn(&Path) -> io::Result<()>) {
    let removed = tokio::task::spawn_blocking({
        let path = path.clone();
        move || how(&path)
    });
    done(&path, removed.await.unwrap_or_else(|error| Err(io::Error::other(error))));
}

fn done(path: &Path, removed: io::Result<()>) {
    match removed {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(path = %path.display(), %error, "clearing up failed"),
    }
}
