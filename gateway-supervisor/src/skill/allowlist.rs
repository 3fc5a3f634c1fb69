//! The owner's allowlist: which skills may be shown to ChatGPT, each pinned to the digests of its texts.

use std::collections::{BTreeMap, BTreeSet};

use protocol::digest::Digest;
use serde::Deserialize;

/// The pinned digests of each skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowlist(BTreeMap<String, BTreeSet<Digest>>);

/// One entry as the owner writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowlistEntry {
    /// The skill.
    pub skill_id: String,
    /// SHA-256 of its whole normalised text, 64 lower-case hex digits.
    pub content_sha256: String,
}

/// The allowlist can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAllowlist {
    /// It is not a list of entries.
    #[error("the skill allowlist is not a JSON list of {{\"skill_id\", \"content_sha256\"}}: {0}")]
    Json(String),
    /// An entry's digest is not one.
    #[error(
        "the skill allowlist's entry {position} ({skill_id:?}): content_sha256 is not 64 lower-case hex digits; `gatewayctl skill hash FILE` prints the entry"
    )]
    Digest {
        /// Which entry, from 0.
        position: usize,
        /// Its id.
        skill_id: String,
    },
    /// An entry's id is empty.
    #[error("the skill allowlist's entry {position} has an empty skill_id")]
    Id {
        /// Which entry, from 0.
        position: usize,
    },
}

impl Allowlist {
    /// The allowlist in a JSON text.
    ///
    /// # Errors
    /// Says where the text is wrong.
    pub fn from_json(text: &str) -> Result<Self, InvalidAllowlist> {
        let entries: Vec<AllowlistEntry> =
            serde_json::from_str(text).map_err(|error| InvalidAllowlist::Json(error.to_string()))?;
        Self::from_entries(&entries)
    }

    /// The allowlist of these entries. One id may be pinned to several texts.
    ///
    /// # Errors
    /// Names the entry that is wrong.
    pub fn from_entries(entries: &[AllowlistEntry]) -> Result<Self, InvalidAllowlist> {
        let mut pinned: BTreeMap<String, BTreeSet<Digest>> = BTreeMap::new();
        for (position, entry) in entries.iter().enumerate() {
            if entry.skill_id.is_empty() {
                return Err(InvalidAllowlist::Id { position });
            }
            let digest = entry
                .content_sha256
                .parse()
                .map_err(|_| InvalidAllowlist::Digest { position, skill_id: entry.skill_id.clone() })?;
            pinned.entry(entry.skill_id.clone()).or_default().insert(digest);
        }
        Ok(Self(pinned))
    }

    /// Whether any text of this skill is pinned.
    #[must_use]
    pub fn knows(&self, skill_id: &str) -> bool {
        self.0.contains_key(skill_id)
    }

    /// Whether this text of the skill is pinned.
    #[must_use]
    pub fn pins(&self, skill_id: &str, digest: Digest) -> bool {
        self.0.get(skill_id).is_some_and(|digests| digests.contains(&digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let digest = Digest::of(b"x");
        for (text, words) in [
            ("{", "line 1"),
            ("{}", "JSON list"),
            (r#"[{"skill_id":"a"}]"#, "content_sha256"),
            (r#"[{"skill_id":"a","content_sha256":"x","extra":1}]"#, "extra"),
            (
                &format!(
                    r#"[{{"skill_id":"a","content_sha256":"{digest}"}},{{"skill_id":"b","content_sha256":"AB"}}]"#
                ),
                "entry 1",
            ),
            (&format!(r#"[{{"skill_id":"","content_sha256":"{digest}"}}]"#), "entry 0"),
        ] {
            let error = Allowlist::from_json(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(Allowlist::from_json("[]").unwrap(), Allowlist::default());
    }
}
