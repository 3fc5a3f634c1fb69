//! Where an opened file really is.

use nix::fcntl::{FcntlArg, fcntl};
use std::{fs::File, io, path::PathBuf};

/// The path by which the kernel knows an opened file, with the case that is on disk.
pub(crate) fn path_of(file: &File) -> io::Result<PathBuf> {
    let mut path = PathBuf::new();
    fcntl(file, FcntlArg::F_GETPATH(&mut path))?;
    Ok(path)
}

/// macOS has no proc file system.
#[expect(clippy::unnecessary_wraps, reason = "the same shape as on Linux, where asking can fail")]
pub(crate) fn is_process_information(_file: &File) -> io::Result<bool> {
    Ok(false)
}
