//! What the caller and the runner say to each other, as frames of JSON on a stream.
//!
//! Invariant: a frame's length is checked before room is made for it.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    ffi::OsString,
    io::{self, Read, Write},
};

/// Longest frame: macOS takes 1 MiB of arguments and environment, and a byte takes up to four on the wire.
const FRAME_BYTES: u32 = 16 * 1024 * 1024;

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The whole command line of `sandbox-exec`, its own name first.
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: OsString,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) file_bytes: Option<u64>,
    pub(super) umask: u16,
}

/// What the runner tells.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    Running(i32),
    Exited(i32),
    Signaled(i32),
    Failed { step: String, errno: i32 },
}

/// Writes one frame.
pub(super) fn write(mut stream: impl Write, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= FRAME_BYTES);
    let length = length.ok_or_else(|| io::Error::from_raw_os_error(libc::E2BIG))?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&bytes)
}

/// Reads one frame; `None` where the other end is closed.
pub(super) fn read<T: DeserializeOwned>(mut stream: impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_be_bytes(length);
    if length > FRAME_BYTES {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    stream.read_exact(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}
