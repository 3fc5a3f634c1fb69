//! An undo, between the supervisor and the process that carries it out: JSON lines over its standard input and output.
//!
//! ```text
//! supervisor ── UndoLaunch ──► stages beside the file
//!            ◄─ Staged ─────── what it is about to do
//! records it, syncs
//!            ── Ack ─────────► compares, exchanges
//!            ◄─ Done ───────── the outcome; also alone, where nothing was staged
//! ```
//!
//! Invariant: without the acknowledgement of exactly what was staged nothing of the project changes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::launch::ProtectedRoots;
use crate::{action::Prepared, digest::Digest, id::ActionId, receipt::Receipt, workspace::RootIdentity};

/// What is to be undone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UndoLaunch {
    /// The undo's own action.
    pub action_id: ActionId,
    /// The session's private folder.
    pub directory: PathBuf,
    /// Canonical directory that the session works in.
    pub root: PathBuf,
    /// The identity that `root` must have.
    pub root_identity: RootIdentity,
    /// The session's scratch for commands.
    pub scratch: PathBuf,
    /// The user's own umask.
    pub umask: u32,
    /// What is protected beyond the built-in list.
    pub protected: ProtectedRoots,
    /// The file, relative to the root.
    pub path: PathBuf,
    /// What must stand there; none where nothing may.
    pub stands: Option<Digest>,
    /// What is put there; none where the file is taken away.
    pub restores: Option<Restored>,
    /// Directories that go with a file that is taken away, where they are empty: relative to the root, outermost first.
    pub directories: Vec<PathBuf>,
}

/// A content that is put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The file that keeps it.
    pub kept: PathBuf,
    /// Its digest.
    pub sha256: Digest,
    /// Permission bits of a file that is made anew, where they are known.
    pub mode: Option<u32>,
}

/// What the process that carries out an undo says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoSaid {
    /// It is staged, and waits for the acknowledgement.
    Staged(Prepared),
    /// It is over.
    Done(Receipt),
}
