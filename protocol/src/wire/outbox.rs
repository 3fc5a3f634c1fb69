//! The outbox: what a worker that must end while the supervisor is away leaves behind in the session's folder.
//!
//! The file is a sequence of: length (4 bytes, big-endian), SHA-256 of the content (32 bytes), content (one encoded
//! [`ToSupervisor::Record`]).
//! Invariant: it is complete or it does not exist, because it is renamed into place after its sync.

use super::{
    codec::{self, CodecError},
    to_supervisor::{ToSupervisor, WorkerRecord},
};
use crate::{digest::Digest, limits::FRAME_BYTES, recorded::RecordId};

/// Name of the file in the session's folder.
pub const FILE_NAME: &str = "outbox";

/// The outbox can't be read.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// An entry is cut or changed.
    #[error("the outbox is damaged at byte {0}")]
    Damaged(usize),
    /// An entry is not a record.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The bytes of an outbox.
///
/// # Errors
/// Where a record is larger than a frame.
pub fn encode(records: &[(RecordId, WorkerRecord)]) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::new();
    for (record, what) in records {
        let content = codec::encode(&ToSupervisor::Record { record: *record, what: what.clone() })?;
        let length = u32::try_from(content.len()).map_err(|_| CodecError::TooLarge(content.len()))?;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(Digest::of(&content).as_bytes());
        bytes.extend_from_slice(&content);
    }
    Ok(bytes)
}

/// The records in an outbox.
///
/// # Errors
/// Where an entry is cut, changed, or not a record.
pub fn decode(bytes: &[u8]) -> Result<Vec<(RecordId, WorkerRecord)>, OutboxError> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let damaged = OutboxError::Damaged(at);
        let Some((head, rest)) = bytes[at..].split_at_checked(36) else { return Err(damaged) };
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(content) =
            rest.get(..length).filter(|c| length <= FRAME_BYTES && Digest::of(c).as_bytes() == &head[4..])
        else {
            return Err(damaged);
        };
        match codec::decode(content)? {
            ToSupervisor::Record { record, what } => records.push((record, what)),
            ToSupervisor::Attached(_) | ToSupervisor::Ended(_) | ToSupervisor::Bye => return Err(damaged),
        }
        at += 36 + length;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_outbox_is_an_error() {
        let records = vec![
            (RecordId { launch: 1, number: 1 }, WorkerRecord::ClaudeStarted { version: "x".into() }),
            (
                RecordId { launch: 1, number: 2 },
                WorkerRecord::ClaudeGone { had_started: true, detail: "y".into() },
            ),
        ];
        let bytes = encode(&records).unwrap();
        assert_eq!(decode(&bytes).unwrap(), records);
        assert!(decode(&[]).unwrap().is_empty());
        for cut in 1..bytes.len() {
            if let Ok(some) = decode(&bytes[..cut]) {
                assert_eq!(some, records[..1], "only a whole entry may be taken for one");
            }
            let mut changed = bytes.clone();
            changed[cut] ^= 1;
            assert!(decode(&changed).is_err(), "byte {cut}");
        }
    }
}
