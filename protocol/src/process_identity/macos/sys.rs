//! The two system calls that tell a process's start and the boot it belongs to.
#![expect(unsafe_code, reason = "libproc and sysctl have no safe wrapper")]

use std::{ffi::CStr, io, mem::MaybeUninit, ptr};

pub(super) fn bsd_info(pid: u32) -> io::Result<libc::proc_bsdinfo> {
    let pid = libc::c_int::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    let size = size_of::<libc::proc_bsdinfo>();
    let want = libc::c_int::try_from(size).map_err(io::Error::other)?;
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    // SAFETY: the buffer is `size` writable bytes, and the call writes at most that many.
    let got = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), want) };
    if got != want {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed bytes are a valid value of this plain C struct, and the call has filled all of it.
    Ok(unsafe { info.assume_init() })
}

pub(super) fn boot_session() -> io::Result<String> {
    const NAME: &CStr = c"kern.bootsessionuuid";
    let mut text = [0_u8; 64];
    let mut length = text.len();
    // SAFETY: the name ends in NUL; `text` has `length` writable bytes; nothing is set.
    let status = unsafe {
        libc::sysctlbyname(NAME.as_ptr(), text.as_mut_ptr().cast(), &raw mut length, ptr::null_mut(), 0)
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
    Ok(String::from_utf8_lossy(&text[..end]).into_owned())
}
