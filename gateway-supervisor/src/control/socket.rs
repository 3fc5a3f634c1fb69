//! Where the owner's socket stands, and who may be at its other end.
//!
//! Invariant: only this user can open the socket: its folder is 0700, the socket 0600, and the peer's euid is checked on
//! both sides.
#![expect(clippy::disallowed_methods, reason = "the gateway's own sockets")]

use std::{
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use interprocess::local_socket::{
    GenericFilePath, ListenerOptions, ToFsName as _,
    tokio::{Listener, Stream},
    traits::{StreamCommon as _, tokio::Stream as _},
};
use nix::unistd::geteuid;
use protocol::digest::Digest;

/// Name of the owner's socket in the state directory.
pub const CONTROL: &str = "control.sock";

/// Bytes of a socket's path: `sun_path` without its final zero.
pub(crate) const PATH_BYTES: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

/// Digits of the state directory's digest in a socket's name: enough that two states of one user never share one.
const NAME_DIGITS: usize = 16;

/// The path of the socket `name` of the gateway whose state is `state`: in the state itself, or, where that path is
/// longer than a socket's may be, in a short folder of this user's.
///
/// The folder does not come from the environment, because a service and a login shell disagree about `XDG_RUNTIME_DIR`.
#[must_use]
pub fn path(state: &Path, name: &str) -> PathBuf {
    let state = state.canonicalize().unwrap_or_else(|_| state.to_owned());
    let direct = state.join(name);
    if direct.as_os_str().len() <= PATH_BYTES {
        return direct;
    }
    let digest = Digest::of(state.as_os_str().as_bytes()).to_string();
    runtime_folder().join(format!("{}-{name}", &digest[..NAME_DIGITS]))
}

/// The short folder of this user's, for sockets whose path in the state would be too long.
pub(crate) fn runtime_folder() -> PathBuf {
    PathBuf::from(format!("/tmp/gateway-{}", geteuid()))
}

/// Listens at [`path`]. The caller holds the state's lock, so a socket that is there already is a dead supervisor's.
///
/// # Errors
/// Where the folder is not this user's alone, something else stands at the path, or the system refuses.
pub fn listen(state: &Path, name: &str) -> io::Result<Listener> {
    let path = path(state, name);
    if path.parent() == Some(&runtime_folder()) {
        own_folder(&runtime_folder())?;
    }
    clear(&path)?;
    let listener = ListenerOptions::new()
        .name(path.as_path().to_fs_name::<GenericFilePath>()?)
        // A stale name was cleared above; reclaiming on drop could take the name of a successor.
        .reclaim_name(false)
        .create_tokio()?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Makes the folder, or checks that the one there is a real folder of this user that nobody else can enter.
///
/// # Errors
/// Where it is not, or can't be made.
pub(crate) fn own_folder(folder: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} is not a folder of this user with mode 0700; remove it, or choose a shorter state directory",
            folder.display()
        ),
    ))
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{} is in the way and is no socket; move it elsewhere", path.display()),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the socket when the supervisor leaves in good order. A failure is of no consequence: [`listen`] clears it.
pub fn remove(state: &Path, name: &str) {
    if let Err(error) = clear(&path(state, name)) {
        tracing::debug!(%error, "the socket {name} could not be removed");
    }
}

/// Connects to the supervisor of the state directory.
///
/// # Errors
/// `NotFound` or `ConnectionRefused` where no supervisor runs there; `PermissionDenied` where it is another user's.
pub async fn connect(state: &Path, name: &str) -> io::Result<Stream> {
    let path = path(state, name);
    let stream = Stream::connect(path.as_path().to_fs_name::<GenericFilePath>()?).await?;
    require_own_peer(&stream)?;
    Ok(stream)
}

/// Checks that the other end is a process of this user.
///
/// # Errors
/// Where it is not, or the system does not tell.
pub fn require_own_peer(stream: &Stream) -> io::Result<()> {
    let peer = stream.peer_creds()?.euid();
    if peer == Some(geteuid().as_raw()) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the process at the other end of the socket belongs to another user ({peer:?})"),
    ))
}
