//! Frames: a length of four bytes, big-endian, and that many bytes.
//!
//! Invariant: a length over the bound is an error before anything is allocated for it.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::codec::{self, CodecError};
use crate::limits::FRAME_BYTES;

/// A connection that no longer carries frames.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream failed, or ended within a frame.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer announced a frame that is too large.
    #[error("the peer announced a frame of {0} bytes; at most {FRAME_BYTES} are taken")]
    TooLarge(usize),
    /// The frame's content is not a message.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The next frame's bytes; none where the stream ended between two frames.
///
/// Not cancel-safe: call it from a task of its own and hand its results over by a channel.
///
/// # Errors
/// Where the stream fails, ends within a frame, or announces one that is too large.
pub async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Option<Vec<u8>>, FrameError> {
    let mut length = [0; 4];
    match stream.read(&mut length).await? {
        0 => return Ok(None),
        got => {
            stream.read_exact(&mut length[got..]).await?;
        }
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_BYTES {
        return Err(FrameError::TooLarge(length));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(Some(bytes))
}

/// Writes one frame.
///
/// # Errors
/// Where it is too large or the stream fails.
pub async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> Result<(), FrameError> {
    let length = u32::try_from(bytes.len())
        .ok()
        .filter(|_| bytes.len() <= FRAME_BYTES)
        .ok_or(FrameError::TooLarge(bytes.len()))?;
    let mut whole = Vec::with_capacity(bytes.len() + 4);
    whole.extend_from_slice(&length.to_be_bytes());
    whole.extend_from_slice(bytes);
    stream.write_all(&whole).await?;
    stream.flush().await?;
    Ok(())
}

/// The next message; none where the stream ended between two frames.
///
/// # Errors
/// As [`read()`], and where the frame is not one message of this type.
pub async fn receive<T: DeserializeOwned, S: AsyncRead + Unpin>(
    stream: &mut S,
) -> Result<Option<T>, FrameError> {
    match read(stream).await? {
        Some(bytes) => Ok(Some(codec::decode(&bytes)?)),
        None => Ok(None),
    }
}

/// Writes one message.
///
/// # Errors
/// As [`write()`].
pub async fn send<T: Serialize, S: AsyncWrite + Unpin>(
    stream: &mut S,
    message: &T,
) -> Result<(), FrameError> {
    write(stream, &codec::encode(message)?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn frames_come_back_and_lies_are_errors() {
        let (mut a, mut b) = tokio::io::duplex(1 << 21);
        write(&mut a, b"").await.unwrap();
        write(&mut a, &[7; FRAME_BYTES]).await.unwrap();
        assert!(matches!(write(&mut a, &[7; FRAME_BYTES + 1]).await, Err(FrameError::TooLarge(_))));
        a.write_all(&[0, 0, 0, 9, 1]).await.unwrap();
        drop(a);
        assert_eq!(read(&mut b).await.unwrap().unwrap(), b"");
        assert_eq!(read(&mut b).await.unwrap().unwrap().len(), FRAME_BYTES);
        assert!(
            matches!(read(&mut b).await, Err(FrameError::Io(_))),
            "a frame that is cut is an error, not an end"
        );
        let mut huge: &[u8] = &[0xff; 8];
        assert!(matches!(read(&mut huge).await, Err(FrameError::TooLarge(_))));
        let mut nothing: &[u8] = &[];
        assert!(read(&mut nothing).await.unwrap().is_none());
    }
}
