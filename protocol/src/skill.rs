//! Skills: pinned instruction texts that a session was started with.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// What may be told about a skill: everything but its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillSnapshot {
    /// The id in the allowlist.
    pub skill_id: String,
    /// Digest of the whole normalised text, the one in the allowlist.
    pub content_sha256: Digest,
    /// Digest of the instruction body that is shown to ChatGPT.
    pub body_sha256: Digest,
    /// Bytes of the instruction body.
    pub body_bytes: u64,
}
