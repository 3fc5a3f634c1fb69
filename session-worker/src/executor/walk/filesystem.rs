//! What the systems do differently: opening beneath a directory without links, and telling kernel file systems.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use nix::fcntl::OFlag;

/// Which file systems a walk enters.
#[derive(Debug)]
pub(super) struct Shown {
    #[cfg(target_os = "linux")]
    kernel_too: bool,
}

#[cfg(target_os = "linux")]
impl Shown {
    /// A walk that starts in a kernel file system shows it; any other leaves them out: their files are made up when
    /// they are read, may never end, and tell of other processes.
    pub(super) fn below(root: &OwnedFd) -> Self {
        Shown { kernel_too: is_kernel(root) }
    }

    pub(super) fn shows(&self, directory: &OwnedFd) -> bool {
        self.kernel_too || !is_kernel(directory)
    }
}

#[cfg(target_os = "linux")]
fn is_kernel(directory: &OwnedFd) -> bool {
    use nix::sys::statfs::{
        BPF_FS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, PROC_SUPER_MAGIC,
        SECURITYFS_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, fstatfs,
    };
    fstatfs(directory).is_ok_and(|found| {
        [
            PROC_SUPER_MAGIC,
            SYSFS_MAGIC,
            DEBUGFS_MAGIC,
            TRACEFS_MAGIC,
            SECURITYFS_MAGIC,
            CGROUP_SUPER_MAGIC,
            CGROUP2_SUPER_MAGIC,
            BPF_FS_MAGIC,
        ]
        .contains(&found.filesystem_type())
    })
}

#[cfg(not(target_os = "linux"))]
impl Shown {
    /// There are no kernel file systems to leave out.
    pub(super) fn below(_: &OwnedFd) -> Self {
        Shown {}
    }

    pub(super) fn shows(&self, _: &OwnedFd) -> bool {
        true
    }
}

/// Opens a path of several names beneath `root`; a symbolic link anywhere in it is an error.
#[cfg(target_os = "linux")]
pub(super) fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    use nix::fcntl::{OpenHow, ResolveFlag, openat2};
    let how =
        OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH);
    Ok(openat2(root.as_fd(), path, how)?)
}

/// Opens a path of several names beneath `root`, one after another; a symbolic link anywhere in it is an error.
#[cfg(not(target_os = "linux"))]
pub(super) fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    use nix::{fcntl::openat, sys::stat::Mode};
    let through = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut at: Option<OwnedFd> = None;
    if let Some(parent) = path.parent() {
        for name in parent.components() {
            let from = at.as_ref().unwrap_or(root);
            at = Some(openat(from.as_fd(), name.as_os_str(), through, Mode::empty())?);
        }
    }
    let name = path.file_name().unwrap_or_else(|| std::ffi::OsStr::new("."));
    Ok(openat(at.as_ref().unwrap_or(root).as_fd(), name, flags, Mode::empty())?)
}
