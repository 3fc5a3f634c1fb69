//! Values that are on the disk.
//!
//! Invariant: only the ledger makes a [`Durable`]: after its sync, or by reading back what was synced.

use protocol::{
    digest::Digest,
    recorded::{Ack, RecordId},
};

use super::writer;

/// A value that the ledger holds, and that a power cut does not take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable<T> {
    value: T,
    number: u64,
}

impl<T> Durable<T> {
    pub(super) const fn new(value: T, number: u64) -> Self {
        Self { value, number }
    }

    /// The value.
    pub const fn get(&self) -> &T {
        &self.value
    }

    /// The value, given up as the durable thing it was.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Which record of its session it is, from 1.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The acknowledgement to give to the one who asked for the record: for the request `record`, of what has `digest`.
    #[must_use]
    pub const fn ack(&self, record: RecordId, digest: Digest) -> Ack {
        writer::mint(record, digest)
    }
}
