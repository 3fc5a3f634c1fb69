//! The cage of macOS: Seatbelt for what it may do, and a runner that takes its whole tree of processes along when it
//! ends, for there is no pid namespace to do that.

mod files;
mod launch;
mod runner;
mod sys;
mod tree;
mod wire;

pub(crate) use files::{is_process_information, path_of};
pub(crate) use launch::{Cage, Keeper, helper};

use std::{
    io,
    path::{Path, PathBuf},
};

/// The system's loader is part of every profile.
#[expect(clippy::unnecessary_wraps, reason = "the same shape as on Linux, where reading can fail")]
pub(crate) fn interpreter(_program: &Path) -> io::Result<Option<PathBuf>> {
    Ok(None)
}

/// Landlock is Linux's.
pub(crate) fn landlock_abi() -> Option<u32> {
    None
}

/// What Linux holds twice, Seatbelt holds alone; `profiles/README.md` says so.
pub(crate) fn second_covers() -> Vec<String> {
    vec!["every promise is held by Seatbelt alone".into()]
}
