//! The directory a session works in, and how it is recognised again.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

/// What a directory is, beyond its name: a directory that was replaced under the same name differs here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootIdentity {
    /// Device number. Compared only within one boot: it may change over a reboot.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// The file system's own id, where it has one.
    pub filesystem: Option<String>,
    /// When the directory was made, where the file system remembers.
    pub born_at: Option<Timestamp>,
    /// The boot during which `device` was read.
    pub boot: String,
}

/// How the session's root relates to the directory that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkspaceKind {
    /// Nothing below it is written.
    ReadOnly,
    /// Written in place.
    Direct,
    /// A Git worktree made by the gateway.
    Worktree {
        /// The worktree's own branch.
        branch: String,
        /// The commit it was made from, 40 or 64 hex digits.
        base_commit: String,
    },
}

/// Where a session works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// How the root relates to the source.
    #[serde(flatten)]
    pub kind: WorkspaceKind,
    /// The canonical directory that the session works in.
    pub root: PathBuf,
    /// The canonical directory that was asked for.
    pub source: PathBuf,
    /// The root's identity at the session's birth.
    pub identity: RootIdentity,
    /// What the owner should know about it (submodules, large files, …).
    #[serde(default)]
    pub notes: Vec<String>,
}
