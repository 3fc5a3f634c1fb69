//! What goes wrong with a wall, and the one line that mends it.
//!
//! Invariant: an error that stops a launch names the wall that is missing; nothing is launched behind fewer walls.

use serde::{Deserialize, Serialize};
use std::{fmt, io, path::PathBuf};

use crate::spec::SpecError;

/// A piece of the operating system that a wall is built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Feature {
    /// Linux: a user namespace made by an ordinary process.
    UserNamespace,
    /// Linux: mount, pid, net, ipc and uts namespaces inside that user namespace.
    Namespaces,
    /// Linux: `mount_setattr`, `open_tree` and `move_mount`.
    MountApi,
    /// Linux: a fresh `/proc` inside a pid namespace.
    FreshProc,
    /// Linux: Landlock, ABI 2 (Linux 5.19) or newer.
    Landlock,
    /// Linux: seccomp filters.
    Seccomp,
    /// macOS: `/usr/bin/sandbox-exec`.
    Seatbelt,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::UserNamespace => "user namespaces",
            Feature::Namespaces => "mount, pid, net, ipc and uts namespaces",
            Feature::MountApi => "the mount_setattr family of system calls",
            Feature::FreshProc => "a fresh /proc in a pid namespace",
            Feature::Landlock => "Landlock (ABI 2, Linux 5.19 or newer)",
            Feature::Seccomp => "seccomp filters",
            Feature::Seatbelt => "Seatbelt (sandbox-exec)",
        })
    }
}

/// Why a cage could not be built or a program not be started in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WallError {
    /// This machine lacks, or forbids, a piece that the wall needs.
    #[error("the wall needs {feature}, which this machine refuses: {found}; {mend}")]
    Unsupported {
        /// The missing piece.
        feature: Feature,
        /// What was observed.
        found: String,
        /// The setting or the line that mends it.
        mend: String,
    },
    /// The description contradicts itself; nothing was started.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// One step of building the cage failed; nothing was started.
    #[error(
        "building the cage: {step} failed: {source}; nothing was started, `gatewayctl doctor` tells which setting forbids it"
    )]
    Build {
        /// The step and what it was applied to.
        step: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The cage stands, but the program in it could not be executed.
    #[error("starting {} in its cage: {source}; check that it exists, is executable and is not protected", program.display())]
    Exec {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The helper process that builds cages can't be started, has died, or speaks another version.
    #[error("asking the cage's helper {asking}: {source}; open a new cage")]
    Helper {
        /// What was asked.
        asking: &'static str,
        /// What happened.
        source: io::Error,
    },
}
