//! The first thing the worker does: it shuts itself off from the process that started it.
//!
//! Invariant: no descriptor but the three standard ones, no signal mask and no file mode of the starter's stays.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod sys;

use std::io;

use nix::{
    sys::{
        resource::{Resource, setrlimit},
        signal::{SigSet, SigmaskHow, sigprocmask},
        stat::{Mode, umask},
    },
    unistd::{getpid, getsid, setsid},
};

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;

/// Hardens this process. Call it before anything opens a descriptor.
///
/// # Errors
/// Where the system refuses a step; the worker must then not go on.
pub(crate) fn harden() -> io::Result<()> {
    umask(Mode::from_bits_truncate(0o077));
    // A core file would hold the session's secrets.
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    if getsid(None)? != getpid() {
        setsid()?;
    }
    sys::close_from_three()?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    system::harden()
}
