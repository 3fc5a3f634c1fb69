//! The system calls of replacement that no crate wraps for both systems.
//!
//! Invariant: every name is looked up in the directory of its handle and is one component: no path is walked.
#![expect(unsafe_code, reason = "renaming with flags, and attributes of a handle, have no safe wrapper")]

use std::{
    ffi::{CString, OsStr},
    fs::File,
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
};

/// A name in an opened directory.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) directory: &'a File,
    pub(super) name: &'a OsStr,
}

/// Swaps two files in one step: each has the other's name then. Both must exist.
pub(super) fn exchange(one: Entry<'_>, other: Entry<'_>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    let flags = libc::RENAME_EXCHANGE;
    #[cfg(target_os = "macos")]
    let flags = libc::RENAME_SWAP;
    rename_with(one, other, flags)
}

/// Gives a file another name, unless something has that name already (`AlreadyExists`).
pub(super) fn move_new(from: Entry<'_>, to: Entry<'_>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    let flags = libc::RENAME_NOREPLACE;
    #[cfg(target_os = "macos")]
    let flags = libc::RENAME_EXCL;
    rename_with(from, to, flags)
}

/// Whether an error of [`exchange`] or [`move_new`] says that this file system has no such operation.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    // Two of them are one number on Linux.
    let codes = [libc::ENOSYS, libc::EINVAL, libc::ENOTSUP, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[cfg(target_os = "linux")]
fn rename_with(from: Entry<'_>, to: Entry<'_>, flags: libc::c_uint) -> io::Result<()> {
    let (from_name, to_name) = (CString::new(from.name.as_bytes())?, CString::new(to.name.as_bytes())?);
    // SAFETY: both names are NUL-terminated and live across the call; the handles are open; the kernel reads
    // the names and keeps no pointer.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            from.directory.as_raw_fd(),
            from_name.as_ptr(),
            to.directory.as_raw_fd(),
            to_name.as_ptr(),
            flags,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(target_os = "macos")]
fn rename_with(from: Entry<'_>, to: Entry<'_>, flags: libc::c_uint) -> io::Result<()> {
    let (from_name, to_name) = (CString::new(from.name.as_bytes())?, CString::new(to.name.as_bytes())?);
    // SAFETY: both names are NUL-terminated and live across the call; the handles are open; the kernel reads
    // the names and keeps no pointer.
    let result = unsafe {
        libc::renameatx_np(
            from.directory.as_raw_fd(),
            from_name.as_ptr(),
            to.directory.as_raw_fd(),
            to_name.as_ptr(),
            flags,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Copies access control lists and extended attributes.
#[cfg(target_os = "macos")]
pub(super) fn copy_acl_and_xattrs(from: &File, to: &File) -> io::Result<()> {
    let flags = libc::COPYFILE_ACL | libc::COPYFILE_XATTR;
    // SAFETY: both handles are open, and a null state is allowed.
    let result = unsafe { libc::fcopyfile(from.as_raw_fd(), to.as_raw_fd(), std::ptr::null_mut(), flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Extended attributes of an opened file.
#[cfg(target_os = "linux")]
pub(super) mod xattr {
    use std::{
        ffi::{CStr, CString},
        fs::File,
        io,
        os::fd::AsRawFd,
    };

    /// The kernel's own bound for a list of names and for a value (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
    const MAX_BYTES: usize = 64 * 1024;

    /// The names of all attributes.
    pub(in super::super) fn names(file: &File) -> io::Result<Vec<CString>> {
        let mut list = vec![0_u8; MAX_BYTES];
        // SAFETY: the buffer is writable and `len` bytes long.
        let length = unsafe { libc::flistxattr(file.as_raw_fd(), list.as_mut_ptr().cast(), list.len()) };
        list.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
        Ok(list
            .split_inclusive(|&byte| byte == 0)
            .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
            .map(CStr::to_owned)
            .collect())
    }

    /// The value of one attribute.
    pub(in super::super) fn get(file: &File, name: &CStr) -> io::Result<Vec<u8>> {
        let mut value = vec![0_u8; MAX_BYTES];
        // SAFETY: the name is NUL-terminated; the buffer is writable and `len` bytes long.
        let length = unsafe {
            libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), value.as_mut_ptr().cast(), value.len())
        };
        value.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
        Ok(value)
    }

    /// Sets one attribute.
    pub(in super::super) fn set(file: &File, name: &CStr, value: &[u8]) -> io::Result<()> {
        // SAFETY: the name is NUL-terminated; the value is readable and `len` bytes long.
        let result = unsafe {
            libc::fsetxattr(file.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Removes one attribute.
    pub(in super::super) fn remove(file: &File, name: &CStr) -> io::Result<()> {
        // SAFETY: the name is NUL-terminated and the handle is open.
        let result = unsafe { libc::fremovexattr(file.as_raw_fd(), name.as_ptr()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
