//! What Linux alone offers.

use std::io;

use nix::sys::prctl::{set_child_subreaper, set_dumpable};

/// Nobody of the same user reads this process's memory, and no descendant of it escapes to init.
pub(super) fn harden() -> io::Result<()> {
    set_dumpable(false)?;
    Ok(set_child_subreaper(true)?)
}
