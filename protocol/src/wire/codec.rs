//! Messages as bytes: bincode, bounded, with nothing left over.
#![expect(clippy::disallowed_methods, reason = "the one place that encodes and decodes messages")]

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::{Serialize, de::DeserializeOwned};

use crate::limits::FRAME_BYTES;

/// The bytes are not one message of this type, or the message is larger than a frame.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The message can't be written.
    #[error("the message can't be encoded: {0}")]
    Encode(#[from] bincode::error::EncodeError),
    /// The bytes are not a message of this type.
    #[error("the frame is not a message of this protocol: {0}")]
    Decode(#[from] bincode::error::DecodeError),
    /// There are bytes after the message.
    #[error("the frame has {0} bytes after its message")]
    Leftover(usize),
    /// The message does not fit a frame.
    #[error("the message has {0} bytes; a frame holds at most {FRAME_BYTES}")]
    TooLarge(usize),
}

fn configuration() -> Configuration<LittleEndian, Varint, Limit<FRAME_BYTES>> {
    bincode::config::standard().with_limit::<FRAME_BYTES>()
}

/// The bytes of a message.
///
/// # Errors
/// Where it is larger than a frame.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, CodecError> {
    let bytes = bincode::serde::encode_to_vec(message, configuration())?;
    // bincode's limit binds decoding only.
    if bytes.len() > FRAME_BYTES { Err(CodecError::TooLarge(bytes.len())) } else { Ok(bytes) }
}

/// The message in these bytes.
///
/// # Errors
/// Where they are not exactly one message of this type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    if bytes.len() > FRAME_BYTES {
        return Err(CodecError::TooLarge(bytes.len()));
    }
    let (message, used) = bincode::serde::decode_from_slice(bytes, configuration())?;
    if used == bytes.len() { Ok(message) } else { Err(CodecError::Leftover(bytes.len() - used)) }
}
