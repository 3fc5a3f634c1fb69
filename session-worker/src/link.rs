//! The link to the supervisor, as the worker sees it.
//!
//! Invariant: what must be durable goes out as a record, and its sender goes on only with the supervisor's acknowledgement.
//! Invariant: a record that is not acknowledged is sent again on every new connection, in the order of its number.

pub(crate) mod recorder;
