//! The memory and the door: everything that is remembered or decided lives here.
//!
//! Invariant: this process is the only writer of the ledger.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")
)]

mod boundary;
pub mod config;
pub mod control;
pub mod ctl;
mod lease;
pub mod ledger;
pub mod log;
pub mod mcp;
mod recovery;
pub mod session;
pub mod skill;
pub mod supervisor;
mod worker;
pub(crate) mod workspace;
