//! The ledger: one append-only journal per session, and an index that is rebuilt from them.

pub mod record;
