//! The link to the supervisor, as the worker sees it: the worker listens, the supervisor connects and proves itself.
//!
//! Invariant: what must be durable goes out as a record, and its sender goes on only with the supervisor's acknowledgement.
//! Invariant: a record that is not acknowledged is sent again on every new connection, in the order of its number.
//! Invariant: one proven connection at a time; a newer one replaces the older.

pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod outbox;
pub(crate) mod recorder;
pub(crate) mod unacknowledged;

/// The size of the things that arrive from the link together.
pub(crate) const INBOX: usize = 32;
