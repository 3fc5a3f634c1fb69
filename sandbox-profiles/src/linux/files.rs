//! Where an opened file really is.

use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use std::{fs::File, io, os::fd::AsRawFd, path::PathBuf};

/// The path by which the kernel knows an opened file.
pub(crate) fn path_of(file: &File) -> io::Result<PathBuf> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if path.is_absolute() {
        return Ok(path);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("{} has no path", path.display())))
}

/// Whether the file belongs to a proc file system, wherever that is mounted.
pub(crate) fn is_process_information(file: &File) -> io::Result<bool> {
    Ok(fstatfs(file)?.filesystem_type() == PROC_SUPER_MAGIC)
}
