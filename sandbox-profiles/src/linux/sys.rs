//! The system calls that have no safe wrapper.
//!
//! Invariant: everything here is called either by a process with a single thread (the keeper, the cage's init, the
//! process that becomes the program), or does nothing but ask the kernel a question.
#![expect(unsafe_code, reason = "raw system calls live in this file alone")]

use nix::{libc, unistd::Pid};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

/// Which side of a fork this is.
pub(super) enum Forked {
    Child,
    Parent(Pid),
}

fn checked(answer: libc::c_long) -> io::Result<libc::c_long> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

fn forked(answer: libc::c_long) -> io::Result<Forked> {
    match checked(answer)? {
        0 => Ok(Forked::Child),
        pid => i32::try_from(pid).map(|pid| Forked::Parent(Pid::from_raw(pid))).map_err(io::Error::other),
    }
}

/// Forks into new namespaces. The child is the first process of its pid namespace.
pub(super) fn fork_into(namespaces: libc::c_int) -> io::Result<Forked> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no stack given this is fork; the caller has one thread, so no lock is held
    // by a thread that the child lacks.
    let answer = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    forked(answer)
}

/// Forks.
pub(super) fn fork() -> io::Result<Forked> {
    // SAFETY: the caller has one thread, so the child finds no lock held.
    let answer = unsafe { libc::fork() };
    forked(libc::c_long::from(answer))
}

/// Ends this process without running anything of the process it was forked from.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Takes ownership of a descriptor that was just received.
pub(super) fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel made this descriptor for the message that the caller has just received; nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// A detached copy of the mounts at `path`.
pub(super) fn clone_mounts(path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as libc::c_uint;
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    let answer = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    let descriptor = i32::try_from(checked(answer)?).map_err(io::Error::other)?;
    Ok(own(descriptor))
}

/// Attaches a detached mount at `path`.
pub(super) fn attach_mount(mount: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    // SAFETY: both strings are NUL-terminated and outlive the call; the descriptor is open.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    checked(answer).map(|_| ())
}

/// Adds attributes (`MOUNT_ATTR_*`) to the mount at a descriptor, or at `path`, and to all mounts below it.
pub(super) fn add_mount_attributes(at: Option<BorrowedFd<'_>>, path: &CStr, add: u64) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: add, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let from = at.map_or(libc::AT_FDCWD, |descriptor| descriptor.as_raw_fd());
    let flags = libc::AT_RECURSIVE | if at.is_some() { libc::AT_EMPTY_PATH } else { 0 };
    let size = std::mem::size_of::<libc::mount_attr>();
    // SAFETY: `path` is NUL-terminated and `attributes` is a live mount_attr of the size given.
    let answer = unsafe {
        libc::syscall(libc::SYS_mount_setattr, from, path.as_ptr(), flags, &raw const attributes, size)
    };
    checked(answer).map(|_| ())
}

/// Gives up every capability for good: bounding, ambient, effective, permitted and inheritable.
pub(super) fn drop_all_capabilities() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: PR_CAPBSET_DROP takes a number; one that the kernel doesn't know is answered with EINVAL.
        let answer = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if answer < 0 {
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINVAL) => break, // past the last capability of this kernel
                Some(_) | None => return Err(io::Error::last_os_error()),
            }
        }
    }
    // SAFETY: PR_CAP_AMBIENT_CLEAR_ALL takes no further arguments.
    let answer = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    checked(libc::c_long::from(answer))?;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [0_u32; 6];
    // SAFETY: version 3 reads a header and two sets of three words each, which `header` and `none` are.
    let answer = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    checked(answer).map(|_| ())
}

/// Closes every descriptor from `first` on, but for those to keep. The caller owns none of the closed ones any more:
/// it never returns to the code that did.
pub(super) fn close_all_but(first: RawFd, keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|descriptor| *descriptor >= first).collect();
    keep.sort_unstable();
    let mut from = first;
    for kept in keep {
        if kept > from {
            close_range(from, kept - 1, 0)?;
        }
        from = kept + 1;
    }
    close_range(from, RawFd::MAX, 0)
}

/// Lets no descriptor from `first` on survive an exec.
pub(super) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    close_range(first, RawFd::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(from: RawFd, to: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the callers own every descriptor in the range and use none of them afterwards.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, from, to, flags) };
    checked(answer).map(|_| ())
}

/// Sets every signal back to its default, as a freshly started program expects it.
pub(super) fn reset_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: SIG_DFL installs no code of ours; signals that can't be set answer with an error.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Brings up `lo` in this network namespace.
pub(super) fn bring_loopback_up(any_socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed() as libc::c_char;
    request.ifr_name[1] = b'o'.cast_signed() as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which `request` is.
    let answer =
        unsafe { libc::ioctl(any_socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request) };
    checked(libc::c_long::from(answer)).map(|_| ())
}

/// The Landlock ABI of this kernel.
pub(super) fn landlock_abi() -> io::Result<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with the version flag the call takes a null pointer and a zero size and makes nothing.
    let answer = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    checked(answer).and_then(|abi| u32::try_from(abi).map_err(io::Error::other))
}
