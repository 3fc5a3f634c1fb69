//! Reading a journal back, record by record, and telling a torn tail from damage.
//!
//! Invariant: a bad record with a valid one anywhere behind it is damage, never a torn tail.
//! Invariant: never holds more than one record, except to look for a valid one behind a bad one.

use std::io::{self, Read, Seek, SeekFrom};

use protocol::{digest::Digest, id::SessionId};

use super::format::{self, FORMAT, Fault, HEAD_BYTES, HEADER_BYTES, Head};
use crate::ledger::{
    error::{Damage, Newer},
    record::Record,
};

/// Where a journal's next record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ledger) struct Position {
    /// Records before it.
    pub records: u64,
    /// Bytes before it.
    pub length: u64,
    /// The hash of the record before it; of the header, where there is none.
    pub hash: Digest,
}

impl Position {
    /// The place of a session's first record.
    pub(in crate::ledger) fn first(session: SessionId) -> Self {
        Self { records: 0, length: HEADER_BYTES as u64, hash: format::hash(&format::header(session)) }
    }

    /// Adds the next record to `out`, and moves behind it.
    pub(in crate::ledger) fn write(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        self.hash = format::write(self.records + 1, self.hash, payload, out);
        self.records += 1;
        self.length += (HEAD_BYTES + payload.len()) as u64;
    }
}

/// Why reading ended before the end of the file.
#[derive(Debug)]
pub(in crate::ledger) enum Stop {
    /// What is left is the beginning of a record that was never finished.
    Torn,
    /// The journal is damaged.
    Damaged(Damage),
    /// A newer release wrote it.
    Newer(Newer),
    /// The file can't be read.
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads one journal from its first byte.
#[derive(Debug)]
pub(in crate::ledger) struct Reader<R> {
    source: R,
    session: SessionId,
    /// Bytes of the file that count.
    end: u64,
    position: Position,
    record: Vec<u8>,
}

impl<R: Read + Seek> Reader<R> {
    /// Checks the header of a journal of which `end` bytes count.
    pub(in crate::ledger) fn open(mut source: R, session: SessionId, end: u64) -> Result<Self, Stop> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        source.by_ref().take(end.min(HEADER_BYTES as u64)).read_to_end(&mut header)?;
        let position = Position { records: 0, length: 0, ..Position::first(session) };
        let mut reader = Self { source, session, end, position, record: Vec::new() };
        format::check_header(&header, session).map_err(|fault| reader.stop(0, fault))?;
        reader.position = Position::first(session);
        Ok(reader)
    }

    /// Where the last record that was read ends.
    pub(in crate::ledger) const fn position(&self) -> Position {
        self.position
    }

    /// The next record; none at the end.
    pub(in crate::ledger) fn next(&mut self) -> Result<Option<Record>, Stop> {
        if !self.advance()? {
            return Ok(None);
        }
        // The bytes are what a release of the gateway wrote: what this one can't read, it does not know yet.
        serde_json::from_slice(&self.record[HEAD_BYTES..]).map(Some).map_err(|error| {
            let number = self.position.records;
            self.stop(number, Fault::Newer(error.to_string()))
        })
    }

    /// Checks the next record without reading what it says; false at the end.
    pub(in crate::ledger) fn advance(&mut self) -> Result<bool, Stop> {
        let left = self.end - self.position.length;
        if left == 0 {
            return Ok(false);
        }
        let number = self.position.records + 1;
        let Some(head) = self.read_record(left)? else {
            return Err(self.bad_record());
        };
        let damaged = |what: String| Err(Fault::Damaged(what));
        let checked = if head.number != number {
            damaged(format!("a record numbered {} stands in its place", head.number))
        } else if head.previous != self.position.hash {
            damaged("the chain is broken: it does not follow the record before it".to_owned())
        } else if head.format != FORMAT || head.reserved != 0 {
            Err(Fault::Newer(format!("record format {}.{}", head.format, head.reserved)))
        } else {
            Ok(())
        };
        checked.map_err(|fault| self.stop(number, fault))?;
        self.position = Position {
            records: number,
            length: self.position.length + self.record.len() as u64,
            hash: format::hash(&self.record),
        };
        Ok(true)
    }

    /// Reads the record that begins here; none where there is no whole one with a right checksum.
    fn read_record(&mut self, left: u64) -> Result<Option<Head>, Stop> {
        if left <= HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; HEAD_BYTES];
        self.source.read_exact(&mut bytes)?;
        let Some(head) = Head::parse(&bytes).filter(|head| (HEAD_BYTES + head.payload) as u64 <= left) else {
            return Ok(None);
        };
        self.record.clear();
        self.record.extend_from_slice(&bytes);
        self.record.resize(HEAD_BYTES + head.payload, 0);
        self.source.read_exact(&mut self.record[HEAD_BYTES..])?;
        Ok((format::checksum(&self.record) == head.crc).then_some(head))
    }

    /// What a bad record at this place is: torn, or damage.
    fn bad_record(&mut self) -> Stop {
        let number = self.position.records + 1;
        let rest = match self.rest() {
            Ok(rest) => rest,
            Err(error) => return Stop::Io(error),
        };
        match (1..rest.len()).find_map(|at| valid_record(&rest[at..], number)) {
            Some(later) => {
                let what = format!("the record is damaged (record {later} behind it is whole)");
                self.stop(number, Fault::Damaged(what))
            }
            None => Stop::Torn,
        }
    }

    fn rest(&mut self) -> io::Result<Vec<u8>> {
        self.source.seek(SeekFrom::Start(self.position.length))?;
        let mut rest = Vec::new();
        self.source.by_ref().take(self.end - self.position.length).read_to_end(&mut rest)?;
        Ok(rest)
    }

    fn stop(&self, record: u64, fault: Fault) -> Stop {
        let session = self.session;
        match fault {
            Fault::Damaged(what) => {
                Stop::Damaged(Damage { session, record, byte: self.position.length, what })
            }
            Fault::Newer(what) => Stop::Newer(Newer { session, record, what }),
        }
    }
}

/// The number of the record that begins `bytes`, if it is whole and can stand at or behind number `from`.
///
/// A payload can't pass for a record: JSON holds no zero byte, and every head has some.
fn valid_record(bytes: &[u8], from: u64) -> Option<u64> {
    let head = Head::parse(bytes.first_chunk()?)?;
    let record = bytes.get(..HEAD_BYTES + head.payload)?;
    // The number is looked at first because a checksum at every byte would take minutes for a long journal.
    let plausible = head.number >= from && head.number - from <= bytes.len() as u64;
    (plausible && format::checksum(record) == head.crc).then_some(head.number)
}
