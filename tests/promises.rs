//! Every promise to ChatGPT and to the owner, run against the built programs and the real Claude Code.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_input;
mod canaries;
mod crash;
mod crash_edits;
#[cfg(all(feature = "crash-points", target_os = "linux"))]
mod crash_faults;
#[cfg(feature = "crash-points")]
mod crash_lifecycle;
#[cfg(feature = "crash-points")]
mod crash_matrix;
mod idempotency;
mod lease;
mod ledger;
mod lifecycle;
mod mcp_surface;
mod no_leaks;
mod owner;
mod reaping;
mod restart;
mod run_command;
mod shared_root;
mod skills;
mod subagent;
mod subagent_cage;
#[cfg(feature = "crash-points")]
mod subagent_crash;
mod subagent_endpoint;
#[cfg(feature = "crash-points")]
mod subagent_races;
mod undo;
#[cfg(feature = "crash-points")]
mod undo_crash;
mod walls;
mod worktree;
mod writing;
