//! The typed description from which both operating systems build the same cage.
//!
//! Invariant: every path in a description is absolute and free of `.` and `..`; a description that would open
//! what it protects is refused before anything starts.

mod absolute_path;
#[cfg(test)]
mod tests;

pub use absolute_path::AbsolutePath;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most paths one description may name: masks are one mount each, and the kernel's limit of mounts per namespace
/// (100,000) must stay far away.
pub(crate) const MOST_PATHS: usize = 4_096;

/// A description that can't be built as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A path that is relative, has `.` or `..`, or holds a NUL byte.
    #[error("reading the path {:?} of a cage: {why}; give an absolute path without . and ..", path)]
    Path {
        /// The offending path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two parts of the description contradict each other.
    #[error("checking a cage's description: {} {why}; move it or leave it out", path.display())]
    Contradiction {
        /// The path on which they clash.
        path: PathBuf,
        /// The clash.
        why: &'static str,
    },
    /// More paths than a cage can hold.
    #[error(
        "checking a cage's description: it names {found} paths, more than {MOST_PATHS}; protect a common parent instead"
    )]
    TooMany {
        /// How many there were.
        found: usize,
    },
}

/// What the caged process may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Readable {
    /// The whole file system but the protected paths.
    Everything,
    /// These files and trees, the writable trees, and nothing else. Paths that don't exist are left out.
    Only(Vec<AbsolutePath>),
}

/// What the caged process may reach over a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No socket of any family.
    Nothing,
    /// TCP to 127.0.0.1 on one port, whose listener is made together with the cage and handed to the caller.
    /// On Linux the port lies in the cage's own network namespace, so any number is free there; on macOS 0 asks
    /// for a free one.
    LoopbackListener {
        /// The port; 0 lets the system choose.
        port: u16,
    },
}

/// Which processes the caged process may signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signals {
    /// Itself alone.
    Itself,
    /// Everything inside the same cage.
    SameCage,
}

/// What the caged process may execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// Any readable program but these (files, or trees such as a package's folder), which it can't even read.
    AnythingBut(Vec<AbsolutePath>),
    /// The program it is launched as, with these files and trees as its loader and libraries; it can start no
    /// other process.
    OnlyItself(Vec<AbsolutePath>),
}

/// Ceilings of the caged processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Largest file that can be written, in bytes; `None` leaves it open.
    pub file_bytes: Option<u64>,
}

/// What a process behind the walls may do. What is not named here it can't do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// What it may read.
    pub readable: Readable,
    /// What stays hidden from it whatever else is said, usually [`crate::Protected::paths`] and the other hard
    /// links that the caller found.
    pub protected: Vec<AbsolutePath>,
    /// Directories that it may write; they exist before launch.
    pub writable: Vec<AbsolutePath>,
    /// What it may reach.
    pub network: Network,
    /// Whom it may signal.
    pub signals: Signals,
    /// What it may execute.
    pub execution: Execution,
    /// Its ceilings.
    pub limits: ResourceLimits,
}

impl SandboxSpec {
    /// The cage of a command: reads everything but `protected`, writes `scratch`, reaches nothing.
    #[must_use]
    pub fn command(scratch: AbsolutePath, protected: Vec<AbsolutePath>) -> Self {
        SandboxSpec {
            readable: Readable::Everything,
            protected,
            writable: vec![scratch],
            network: Network::Nothing,
            signals: Signals::SameCage,
            execution: Execution::AnythingBut(Vec::new()),
            limits: ResourceLimits { file_bytes: None },
        }
    }

    /// The cage of Claude Code: reads `libraries` and the system files that `readable` names, writes `home`,
    /// reaches the one port, starts no program. Its own program file is added at launch.
    #[must_use]
    pub fn claude(home: AbsolutePath, readable: Vec<AbsolutePath>, libraries: Vec<AbsolutePath>) -> Self {
        SandboxSpec {
            readable: Readable::Only(readable),
            protected: Vec::new(),
            writable: vec![home],
            network: Network::LoopbackListener { port: 0 },
            signals: Signals::Itself,
            execution: Execution::OnlyItself(libraries),
            limits: ResourceLimits { file_bytes: None },
        }
    }

    /// Refuses a description that contradicts itself.
    ///
    /// # Errors
    /// [`SpecError::Contradiction`] where a writable directory is `/` or lies in a protected path;
    /// [`SpecError::TooMany`] beyond 4,096 paths.
    pub fn validate(&self) -> Result<(), SpecError> {
        let readable = match &self.readable {
            Readable::Everything => 0,
            Readable::Only(paths) => paths.len(),
        };
        let found = readable + self.protected.len() + self.writable.len() + self.executables().len();
        if found > MOST_PATHS {
            return Err(SpecError::TooMany { found });
        }
        for writable in &self.writable {
            let clash = |why| SpecError::Contradiction { path: writable.to_path_buf(), why };
            if writable.parent().is_none() {
                return Err(clash("is the whole file system, which no cage may write"));
            }
            if self.hidden().any(|hidden| writable.starts_with(hidden)) {
                return Err(clash("is writable but lies in a protected path"));
            }
        }
        match self.hidden().find(|hidden| hidden.parent().is_none()) {
            Some(root) => Err(SpecError::Contradiction {
                path: root.to_path_buf(),
                why: "is protected, which leaves nothing to read",
            }),
            None => Ok(()),
        }
    }

    /// Every path that must stay hidden: the protected ones and the denied executables.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = &AbsolutePath> {
        let denied: &[AbsolutePath] = match &self.execution {
            Execution::AnythingBut(denied) => denied,
            Execution::OnlyItself(_) => &[],
        };
        self.protected.iter().chain(denied)
    }

    fn executables(&self) -> &[AbsolutePath] {
        match &self.execution {
            Execution::AnythingBut(paths) | Execution::OnlyItself(paths) => paths,
        }
    }
}
