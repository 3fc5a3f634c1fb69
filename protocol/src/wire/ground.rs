//! A question to the worker's program before a session exists: is the directory one that no session writes in? One JSON line
//! over its standard input, one over its output. The worker alone knows what is protected.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::launch::ProtectedRoots;

/// The question.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GroundQuestion {
    /// What is protected beyond the built-in list.
    pub protected: ProtectedRoots,
    /// The canonical directory.
    pub directory: PathBuf,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Ground {
    /// A directory like any other.
    Open,
    /// A credential store, the gateway's own, or what the user added; or inside one.
    Protected,
}
