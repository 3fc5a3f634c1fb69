//! The system call that no crate wraps: telling the disk early what will be synced.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "starting a file's write-out has no safe wrapper")
)]

use std::fs::File;

/// Lets the disk begin with what was written to a file, without waiting for it. Several files that are about to be synced
/// are then on their way together, and the first sync does most of the work of all.
///
/// A hint: nothing is durable by it, and where it can't be given nothing is lost.
pub(crate) fn begin_write_out(file: &File) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;

        // SAFETY: the handle is open; the call takes numbers alone and touches no memory of this process.
        let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    }
    #[cfg(target_os = "macos")]
    {
        let _ = file;
    }
}
