//! Identifiers. Each is a newtype, so that a turn can't be answered with an action's id.
//!
//! Invariant: an id that the gateway mints is a prefix and 32 hex digits of a random UUID; it parses back from that text only.
//! Invariant: a key that a client chose is 1 to 200 visible characters.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits::KEY_CHARS;

/// Why a text is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// The text of a minted id does not have its form.
    #[error("not a {kind} id (expected {prefix:?} and 32 hex digits)")]
    Malformed {
        /// What the id names.
        kind: &'static str,
        /// The prefix its text starts with.
        prefix: &'static str,
    },
    /// A client's key is empty, too long, or has control characters.
    #[error("a key has 1 to {KEY_CHARS} characters and no control characters")]
    Key,
}

macro_rules! minted {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Uuid);

        impl $name {
            /// A new random id.
            #[must_use]
            pub fn mint() -> Self {
                Self(Uuid::new_v4())
            }

            /// The id made of these 16 bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The 16 bytes of the id.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let malformed = InvalidId::Malformed { kind: $kind, prefix: $prefix };
                let hex = text.strip_prefix($prefix).ok_or_else(|| malformed.clone())?;
                // `Uuid` also takes braces, hyphens and upper case; one id has one text.
                if hex.len() != 32 || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                    return Err(malformed);
                }
                Uuid::try_parse(hex).map(Self).map_err(|_| malformed)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

minted!(
    /// A native session, and the name of its private folder.
    SessionId, "session", "ses_"
);
minted!(
    /// One prompt until its final answer.
    RunId, "run", "run_"
);
minted!(
    /// One request of Claude Code to its model, waiting for ChatGPT.
    TurnId, "turn", "turn_"
);
minted!(
    /// One tool call of a reply. It travels to Claude Code as the `id` of its `tool_use` block and comes back with the call.
    ActionId, "action", "toolu_"
);
minted!(
    /// The right to drive a session. A new one at start and at each recover.
    LeaseId, "lease", "lease_"
);
minted!(
    /// One worker process. A new one for every process that is started for a session.
    InstanceId, "worker instance", "wrk_"
);
minted!(
    /// A delegated sub-session.
    SubsessionId, "sub-session", "sub_"
);

/// Claude Code's own session id: a hyphenated UUID, kept over every process of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClaudeSessionId(Uuid);

impl ClaudeSessionId {
    /// A new random id.
    #[must_use]
    pub fn mint() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for ClaudeSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.hyphenated(), f)
    }
}

impl FromStr for ClaudeSessionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        Uuid::try_parse(text)
            .ok()
            .filter(|id| id.hyphenated().to_string() == text)
            .map(Self)
            .ok_or(InvalidId::Malformed { kind: "claude session", prefix: "" })
    }
}

impl TryFrom<String> for ClaudeSessionId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<ClaudeSessionId> for String {
    fn from(id: ClaudeSessionId) -> Self {
        id.to_string()
    }
}

macro_rules! client_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The key as the client wrote it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// A key that the gateway makes where no client chose one: a digest's 64 hex digits.
            #[must_use]
            pub fn of_digest(digest: crate::digest::Digest) -> Self {
                Self(digest.to_string())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.to_owned().try_into()
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                let chars = text.chars().count();
                if chars == 0 || chars > KEY_CHARS || text.chars().any(char::is_control) {
                    return Err(InvalidId::Key);
                }
                Ok(Self(text))
            }
        }

        impl From<$name> for String {
            fn from(key: $name) -> Self {
                key.0
            }
        }
    };
}

client_key!(
    /// The key of a `start` or `continue`.
    IdempotencyKey
);
client_key!(
    /// The key of a reply.
    ReplyId
);
client_key!(
    /// The key of a `recover`.
    RecoveryId
);
client_key!(
    /// The key of a `stop`.
    RequestId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_id_parses_back_and_nothing_else_does() {
        let id = SessionId::mint();
        assert_eq!(id.to_string().parse::<SessionId>(), Ok(id));
        for wrong in [
            "",
            "ses_",
            "ses_12",
            &id.to_string().to_uppercase(),
            &format!("{id}0"),
            &TurnId::mint().to_string(),
        ] {
            assert!(wrong.parse::<SessionId>().is_err(), "{wrong}");
        }
        let claude = ClaudeSessionId::mint();
        assert_eq!(claude.to_string().parse::<ClaudeSessionId>(), Ok(claude));
        assert!(claude.to_string().replace('-', "").parse::<ClaudeSessionId>().is_err());
    }

    #[test]
    fn a_clients_key_is_bounded() {
        assert!("é".repeat(KEY_CHARS).parse::<ReplyId>().is_ok());
        for wrong in ["", "a\nb", &"x".repeat(KEY_CHARS + 1)] {
            assert_eq!(wrong.parse::<ReplyId>(), Err(InvalidId::Key));
        }
    }
}
