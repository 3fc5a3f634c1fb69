//! The one thread that writes journals.
//!
//! Invariant: the only place that mints an acknowledgement.

use protocol::{
    digest::Digest,
    recorded::{Ack, RecordId},
};

/// An acknowledgement; asked for by something durable only.
pub(super) const fn mint(record: RecordId, digest: Digest) -> Ack {
    Ack::mint(record, digest)
}
