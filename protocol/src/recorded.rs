//! Durable before release, as types: what is not recorded can't be released.
//!
//! A worker sends a value that must be durable, gets an [`Ack`] back, and only with it makes a [`Recorded`]. Bridge and
//! executor take `Recorded<Reply>`, `Recorded<Prepared>` and `Recorded<Receipt>` and nothing less.
//!
//! ```compile_fail
//! # use protocol::{recorded::Recorded, receipt::Receipt};
//! fn release(_: Recorded<Receipt>) {}
//! fn leak(receipt: Receipt) {
//!     release(receipt); // a receipt that nobody recorded
//! }
//! ```
//!
//! ```compile_fail
//! # use protocol::{recorded::{Ack, Recorded}, receipt::Receipt};
//! fn forge(value: Receipt, ack: Ack) -> Recorded<Receipt> {
//!     Recorded { value, ack } // the fields are private: only `Recorded::new` checks the digest
//! }
//! ```
//!
//! Invariant: only the ledger's writer calls [`Ack::mint`] (a fence in `.clippy.toml` holds it there); a worker gets its acks
//! from the link, whose other end proved that it is the session's supervisor.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::digest::Digest;

/// Names one thing that a worker asks to be recorded: the process that asks, and a number that it counts up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordId {
    /// Which process of the session asks, from 1.
    pub launch: u32,
    /// Its requests, counted from 1 without a gap.
    pub number: u64,
}

/// The proof that a value with this digest is durable under this id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    record: RecordId,
    digest: Digest,
}

impl Ack {
    /// Says that the value with `digest` is durable. For the ledger's writer alone, after its sync.
    #[must_use]
    pub const fn mint(record: RecordId, digest: Digest) -> Self {
        Self { record, digest }
    }

    /// The id under which it was recorded.
    #[must_use]
    pub const fn record(&self) -> RecordId {
        self.record
    }

    /// The digest of what was recorded.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

/// A value that can be recorded.
pub trait Recordable: Serialize + DeserializeOwned {
    /// The digest that its acknowledgement must name.
    fn record_digest(&self) -> Digest {
        // Serialisation into memory of a type of ours does not fail; an empty text would only make the ack not match.
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }
}

impl Recordable for crate::turn::Reply {}
impl Recordable for crate::action::Prepared {}
impl Recordable for crate::receipt::Receipt {}
impl Recordable for crate::turn::Turn {}

/// The acknowledgement is for something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the acknowledgement of {record:?} is for another value")]
pub struct AckMismatch {
    /// What was acknowledged.
    pub record: RecordId,
}

/// A value that the ledger holds durably.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded<T> {
    value: T,
    ack: Ack,
}

impl<T: Recordable> Recorded<T> {
    /// Joins a value with its acknowledgement.
    ///
    /// # Errors
    /// Where the acknowledgement is for another value.
    pub fn new(value: T, ack: Ack) -> Result<Self, AckMismatch> {
        if value.record_digest() == ack.digest {
            Ok(Self { value, ack })
        } else {
            Err(AckMismatch { record: ack.record })
        }
    }
}

impl<T> Recorded<T> {
    /// The value.
    pub const fn get(&self) -> &T {
        &self.value
    }

    /// The value, given up as the recorded thing it was.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Its acknowledgement.
    pub const fn ack(&self) -> &Ack {
        &self.ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::TurnId, turn::Reply};

    #[test]
    fn an_ack_for_another_value_releases_nothing() {
        let reply = Reply {
            reply_id: "r".parse().unwrap(),
            turn_id: TurnId::mint(),
            text: Some("a".into()),
            actions: vec![],
        };
        let record = RecordId { launch: 1, number: 1 };
        let ack = Ack::mint(record, reply.record_digest());
        let other = Reply { text: Some("b".into()), ..reply.clone() };
        assert_eq!(Recorded::new(other, ack.clone()), Err(AckMismatch { record }));
        assert_eq!(Recorded::new(reply.clone(), ack).unwrap().into_inner(), reply);
    }
}
