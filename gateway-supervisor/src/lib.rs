//! The memory and the door: everything that is remembered or decided lives here.
//!
//! Invariant: this process is the only writer of the ledger.

pub mod control;
pub mod ledger;
pub mod mcp;
pub mod session;
pub mod skill;
#[cfg_attr(not(test), expect(dead_code, reason = "the profiles that write are not offered yet"))]
pub(crate) mod workspace;
