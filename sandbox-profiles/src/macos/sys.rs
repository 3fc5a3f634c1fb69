//! The system calls that have no safe wrapper.
//!
//! Invariant: forking is done by the runner alone, which has one thread.
#![expect(unsafe_code, reason = "raw system calls live in this file alone")]

use nix::unistd::Pid;
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

/// Which side of a fork this is.
pub(super) enum Forked {
    Child,
    Parent(Pid),
}

/// Forks.
pub(super) fn fork() -> io::Result<Forked> {
    // SAFETY: the caller has one thread, so the child finds no lock held.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(Pid::from_raw(pid))),
    }
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

/// Lets a descriptor not survive an exec.
pub(super) fn set_close_on_exec(descriptor: RawFd) {
    // SAFETY: F_SETFD changes one flag; a number that isn't open answers with an error.
    let _ = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Sets every signal back to its default.
pub(super) fn reset_signals() {
    for signal in 1..32 {
        // SAFETY: SIG_DFL installs no code of ours; signals that can't be set answer with an error.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// A process by numbers that are never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unique {
    pub(super) id: u64,
    pub(super) parent: u64,
}

/// The kernel's `proc_uniqidentifierinfo`, of a header that is not published; its size is fixed at 56 bytes.
#[repr(C)]
struct UniqueInfo {
    image: [u8; 16],
    id: u64,
    parent: u64,
    reserved: [u64; 3],
}

/// `PROC_PIDUNIQIDENTIFIERINFO`.
const UNIQUE_FLAVOR: libc::c_int = 17;

/// The unique numbers of a process and of the one that started it; the latter stays when a process is orphaned.
pub(super) fn unique(pid: i32) -> Option<Unique> {
    let mut info = UniqueInfo { image: [0; 16], id: 0, parent: 0, reserved: [0; 3] };
    let size = libc::c_int::try_from(std::mem::size_of::<UniqueInfo>()).ok()?;
    let place = (&raw mut info).cast::<libc::c_void>();
    // SAFETY: the kernel writes at most `size` bytes to `place`, which is that large.
    let written = unsafe { libc::proc_pidinfo(pid, UNIQUE_FLAVOR, 0, place, size) };
    (written == size).then_some(Unique { id: info.id, parent: info.parent })
}

/// Every process of this machine.
pub(super) fn all_processes() -> io::Result<Vec<i32>> {
    // SAFETY: with no buffer the call only counts.
    let count = unsafe { libc::proc_listallpids(std::ptr::null_mut(), 0) };
    let room = usize::try_from(count).map_err(|_| io::Error::last_os_error())? + 256;
    let mut pids = vec![0_i32; room];
    let bytes = libc::c_int::try_from(room * std::mem::size_of::<i32>()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `bytes` bytes to the vector, which is that large.
    let count = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast(), bytes) };
    pids.truncate(usize::try_from(count).map_err(|_| io::Error::last_os_error())?);
    Ok(pids)
}

/// A queue of kernel events.
#[derive(Debug)]
pub(super) struct Queue(OwnedFd);

/// What a queue reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A watched process forked, or ended.
    Process(i32),
    /// The watched descriptor can be read, or its other end is closed.
    Readable,
}

impl Queue {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: kqueue has no preconditions.
        let descriptor = unsafe { libc::kqueue() };
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(Queue(own(descriptor))) }
    }

    /// Reports forks and the end of a process. One that is already gone is no error.
    pub(super) fn watch_process(&self, pid: i32) -> io::Result<()> {
        let ident = usize::try_from(pid).map_err(io::Error::other)?;
        match self.add(ident, libc::EVFILT_PROC, libc::NOTE_FORK | libc::NOTE_EXIT) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }

    pub(super) fn watch_readable(&self, descriptor: &impl AsRawFd) -> io::Result<()> {
        let ident = usize::try_from(descriptor.as_raw_fd()).map_err(io::Error::other)?;
        self.add(ident, libc::EVFILT_READ, 0)
    }

    fn add(&self, ident: usize, filter: i16, notes: u32) -> io::Result<()> {
        let change = libc::kevent {
            ident,
            filter,
            flags: libc::EV_ADD,
            fflags: notes,
            data: 0,
            udata: std::ptr::null_mut(),
        };
        // SAFETY: one change is read from `change`, and no event is written.
        let answer = unsafe {
            libc::kevent(self.0.as_raw_fd(), &raw const change, 1, std::ptr::null_mut(), 0, std::ptr::null())
        };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next event, or `None` after `patience`.
    pub(super) fn next(&self, patience: Duration) -> io::Result<Option<Event>> {
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(patience.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(patience.subsec_nanos().cast_signed()),
        };
        let mut event =
            libc::kevent { ident: 0, filter: 0, flags: 0, fflags: 0, data: 0, udata: std::ptr::null_mut() };
        // SAFETY: no change is read, and at most one event is written to `event`.
        let count = unsafe {
            libc::kevent(self.0.as_raw_fd(), std::ptr::null(), 0, &raw mut event, 1, &raw const timeout)
        };
        match count {
            0 => Ok(None),
            1 if event.filter == libc::EVFILT_PROC => {
                Ok(Some(Event::Process(i32::try_from(event.ident).map_err(io::Error::other)?)))
            }
            1 => Ok(Some(Event::Readable)),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                error => Err(error),
            },
        }
    }
}
