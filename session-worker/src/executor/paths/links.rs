//! The open itself: links of the file system are followed, a process's own are not.

use std::{fs::File, io, path::Path};

/// Opens for reading, without waiting and without taking a terminal.
///
/// # Errors
/// What the system says; [`is_of_a_process`] tells an open that led through a process.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path) -> io::Result<File> {
    use nix::{
        errno::Errno,
        fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2},
    };
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    // `/proc/<pid>/root`, `cwd` and `fd/*` are no names: they lead to where a process is, other mounts included.
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(AT_FDCWD, path, how) {
        Ok(file) => Ok(File::from(file)),
        // Without it the cages don't stand either, so no session comes here on such a system.
        Err(Errno::ENOSYS) => Err(io::Error::other("this system's kernel has no openat2 (Linux 5.6)")),
        Err(error) => Err(error.into()),
    }
}

/// See the other half.
///
/// # Errors
/// What the system says.
#[cfg(target_os = "macos")]
pub(super) fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;

    let flags = OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    File::options().read(true).custom_flags(flags.bits()).open(path)
}

/// Whether the open of a path that resolves was refused because a process's own link is on its way.
#[cfg(target_os = "linux")]
pub(super) fn is_of_a_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// There are no such links.
#[cfg(target_os = "macos")]
pub(super) fn is_of_a_process(_: &io::Error) -> bool {
    false
}
