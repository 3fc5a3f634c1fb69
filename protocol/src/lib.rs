//! The vocabulary of the gateway: the nouns that supervisor, worker and tests share, and the wire between them.
//!
//! Invariant: no I/O of its own. The frame and handshake functions work on streams that their caller opened.
//! Invariant: nothing here decides; deciding is the supervisor's, doing is the worker's.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")
)]

pub mod action;
pub mod canonical;
pub mod claude_code;
pub mod crash;
pub mod digest;
pub mod failure;
pub mod id;
pub mod lease;
pub mod limits;
pub mod place;
pub mod process_identity;
pub mod profile;
pub mod receipt;
pub mod recorded;
pub mod schema;
pub mod secret;
pub mod session;
pub mod skill;
pub mod subagent;
pub mod timestamp;
pub mod tool;
pub mod turn;
pub mod wire;
pub mod workspace;
