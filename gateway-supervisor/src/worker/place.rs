//! Where a worker's socket and folders are.

use std::{
    io,
    path::{Path, PathBuf},
};

use protocol::{
    digest::{Digest, hex},
    id::{InstanceId, SessionId},
};

use crate::control::socket::{PATH_BYTES, own_folder, runtime_folder};

/// Bytes of an instance's digest in its socket's name.
const NAME_BYTES: usize = 8;

/// The session's private folder.
pub(crate) fn directory(state: &Path, session: SessionId) -> PathBuf {
    state.join("sessions").join(session.to_string())
}

/// The session's scratch for commands.
pub(crate) fn scratch(work: &Path, session: SessionId) -> PathBuf {
    work.join("scratch").join(session.to_string())
}

/// The socket of a worker: in the state directory, or where that path is longer than a socket's may be in a short folder of
/// this user's. Makes the folder.
///
/// # Errors
/// Where the folder can't be made or is not this user's alone.
pub(crate) fn socket(state: &Path, instance: InstanceId) -> io::Result<PathBuf> {
    let name = format!("{}.sock", hex(&Digest::of(instance.as_bytes()).as_bytes()[..NAME_BYTES]));
    let direct = state.join("run");
    let folder = if direct.join(&name).as_os_str().len() <= PATH_BYTES { direct } else { runtime_folder() };
    own_folder(&folder)?;
    Ok(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_state_path_still_has_a_short_socket() {
        let state = tempfile::tempdir().unwrap();
        let near = socket(state.path(), InstanceId::mint()).unwrap();
        assert!(near.starts_with(state.path()));
        let long = state.path().join("x".repeat(120));
        let far = socket(&long, InstanceId::mint()).unwrap();
        assert!(far.as_os_str().len() <= PATH_BYTES && !far.starts_with(&long), "{far:?}");
    }
}
