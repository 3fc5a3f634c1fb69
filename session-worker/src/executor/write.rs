//! `Write`: the whole new content of a file.
//!
//! Invariant: the content is stored to the byte: no ending is changed, none is added.

use std::fmt;

use protocol::failure::ToolErrorCode;

use super::edit::MAX_TEXT_BYTES;

/// Why a content is not written. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// The content is larger than what the editors take.
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

/// The bytes that a file with `content` holds.
///
/// # Errors
/// [`WriteError`]: the content is too large.
pub(crate) fn write(content: &str) -> Result<Vec<u8>, WriteError> {
    if content.len() > MAX_TEXT_BYTES {
        return Err(WriteError::TooLarge { bytes: content.len() });
    }
    Ok(content.as_bytes().to_vec())
}

impl WriteError {
    /// The stable code that the tool's result carries.
    pub(crate) fn code(&self) -> ToolErrorCode {
        match self {
            Self::TooLarge { .. } => ToolErrorCode::TooLarge,
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes } => write!(
                f,
                "the content has {bytes} bytes and at most {MAX_TEXT_BYTES} are written; split it into several files"
            ),
        }
    }
}

impl std::error::Error for WriteError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_is_kept_to_the_byte() {
        for content in ["", "x", "a\r\nb\nc", "\u{feff}a\n", "\0\x1b", "e\u{301}"] {
            assert_eq!(write(content).unwrap(), content.as_bytes());
        }
    }

    #[test]
    fn a_content_beyond_the_limit_is_refused() {
        let refusal = write(&"x".repeat(MAX_TEXT_BYTES + 1)).unwrap_err();
        assert_eq!(refusal.code(), ToolErrorCode::TooLarge);
        assert!(refusal.to_string().contains(&(MAX_TEXT_BYTES + 1).to_string()));
    }
}
