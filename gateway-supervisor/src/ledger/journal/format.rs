//! The bytes of a journal: its header and its records, as [`super`] describes them.
//!
//! Invariant: a length is checked before anything is allocated for it.

use protocol::{
    digest::{Digest, Hasher},
    id::SessionId,
};

/// The first bytes of every journal.
pub(in crate::ledger) const MAGIC: [u8; 8] = *b"GWLEDGER";

/// The format that this release writes, of header and records alike.
pub(in crate::ledger) const FORMAT: u16 = 1;

/// Bytes of the header.
pub(in crate::ledger) const HEADER_BYTES: usize = 64;

/// Bytes of a record before its payload.
pub(in crate::ledger) const HEAD_BYTES: usize = 52;

/// Largest payload: the largest reply with every character escaped as `\u00XX` is 4.5 MiB, and a receipt is far below it.
pub(in crate::ledger) const PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// The header of a session's journal.
pub(in crate::ledger) fn header(session: SessionId) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..28].copy_from_slice(session.as_bytes());
    let crc = crc32fast::hash(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What is wrong with bytes that should be a header or a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ledger) enum Fault {
    /// They are not what any release writes.
    Damaged(String),
    /// They are whole, and a newer release wrote them.
    Newer(String),
}

/// Checks a header.
pub(in crate::ledger) fn check_header(bytes: &[u8], session: SessionId) -> Result<(), Fault> {
    let damaged = |what: &str| Err(Fault::Damaged(what.to_owned()));
    if bytes.len() < HEADER_BYTES {
        return damaged("the file ends within its header");
    }
    if bytes[..8] != MAGIC {
        return damaged("this is not a journal");
    }
    if u32_at(bytes, 60) != crc32fast::hash(&bytes[..60]) {
        return damaged("the header's checksum is wrong");
    }
    let format = u16_at(bytes, 8);
    if format != FORMAT {
        return Err(Fault::Newer(format!("journal format {format}")));
    }
    if &bytes[12..28] != session.as_bytes() {
        return damaged("this is the journal of another session");
    }
    Ok(())
}

/// A record's fields before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ledger) struct Head {
    /// Bytes of the payload.
    pub payload: usize,
    /// Checksum over everything else.
    pub crc: u32,
    /// How the payload is to be read.
    pub format: u16,
    /// Zero in this format.
    pub reserved: u16,
    /// The record's number, from 1.
    pub number: u64,
    /// The hash of the record before it.
    pub previous: Digest,
}

impl Head {
    /// The head in these bytes. None where its length is one that no record has.
    pub(in crate::ledger) fn parse(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let payload = usize::try_from(u32_at(bytes, 0)).ok()?;
        let mut previous = [0; 32];
        previous.copy_from_slice(&bytes[20..52]);
        (1..=PAYLOAD_BYTES).contains(&payload).then(|| Self {
            payload,
            crc: u32_at(bytes, 4),
            format: u16_at(bytes, 8),
            reserved: u16_at(bytes, 10),
            number: u64_at(bytes, 12),
            previous: Digest::from_bytes(previous),
        })
    }
}

/// Adds a record to `out` and gives its hash. The payload's length is the caller's to check.
pub(in crate::ledger) fn write(number: u64, previous: Digest, payload: &[u8], out: &mut Vec<u8>) -> Digest {
    let start = out.len();
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.reserve(HEAD_BYTES + payload.len());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(previous.as_bytes());
    out.extend_from_slice(payload);
    let crc = checksum(&out[start..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    hash(&out[start..])
}

/// The checksum of a whole record: over everything but the checksum itself.
pub(in crate::ledger) fn checksum(record: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&record[..4]);
    crc.update(&record[8..]);
    crc.finalize()
}

/// The hash of a whole record, which the next one carries.
pub(in crate::ledger) fn hash(record: &[u8]) -> Digest {
    let mut hasher = Hasher::default();
    hasher.update(record);
    hasher.finish()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
