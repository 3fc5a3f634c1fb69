//! Closing what the starter left open.
#![expect(unsafe_code, reason = "closing a descriptor that nobody owns has no safe wrapper")]

use std::io;

/// Closes every descriptor from 3 on.
#[cfg(target_os = "linux")]
pub(super) fn close_from_three() -> io::Result<()> {
    // SAFETY: this is the process's first act: nothing of it owns a descriptor from 3 on yet.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every descriptor from 3 on.
#[cfg(target_os = "macos")]
pub(super) fn close_from_three() -> io::Result<()> {
    let (most, _) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?;
    // A limit may be infinite; no process gets that far.
    let most = libc::c_int::try_from(most).unwrap_or(10_240).min(10_240);
    for descriptor in 3..most {
        // SAFETY: this is the process's first act: nothing of it owns a descriptor from 3 on yet.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}
