//! Hands a timer's descriptor to the runtime.
#![expect(unsafe_code, reason = "the runtime asks for a promise that the descriptor stays open")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
};

use nix::sys::timerfd::TimerFd;
use tokio::io::{Interest, unix::AsyncFd};

/// A timer as the runtime wants it.
#[derive(Debug)]
pub(super) struct Descriptor(pub(super) TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Registers a timer with the runtime.
pub(super) fn register(timer: TimerFd) -> io::Result<AsyncFd<Descriptor>> {
    // SAFETY: the timer owns its descriptor, gives no way to close it or to put another one in its place, and the
    // `AsyncFd` owns the timer.
    let registered = unsafe { AsyncFd::register_with_interest(Descriptor(timer), Interest::READABLE) };
    registered.map_err(io::Error::from)
}
