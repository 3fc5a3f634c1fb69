//! Secrets: values that no log, error or panic message can show.
//!
//! Invariant: `Debug` prints `<redacted>`; the bytes come out only through [`Secret::expose`].

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// A value that is never printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. Each use is a place where it can leak.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// 32 random bytes as 64 hex digits: a bearer token or a per-session secret.
pub type Token = Secret<String>;

impl Secret<[u8; 32]> {
    /// 32 bytes from the system's random source.
    ///
    /// # Errors
    /// Where the system has no random source to give.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The same secret as 64 hex digits.
    #[must_use]
    pub fn to_token(&self) -> Token {
        Secret(crate::digest::hex(&self.0))
    }
}

impl Secret<String> {
    /// Whether `presented` is this secret. Its time does not depend on where the two differ.
    #[must_use]
    pub fn matches(&self, presented: &[u8]) -> bool {
        // Digests have one length, so that not even the secret's length can be timed.
        let (mine, theirs) =
            (crate::digest::Digest::of(self.0.as_bytes()), crate::digest::Digest::of(presented));
        bool::from(mine.as_bytes().ct_eq(theirs.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_compared_whole_and_never_printed() {
        let token = Secret::<[u8; 32]>::random().unwrap().to_token();
        let text = token.expose().clone();
        assert_eq!(text.len(), 64);
        assert!(token.matches(text.as_bytes()));
        assert!(!token.matches(&text.as_bytes()[..63]) && !token.matches(b""));
        assert!(!format!("{token:?}").contains(&text));
    }
}
