//! What the promises are tested with: the built gateway in a temporary home, a scripted ChatGPT, and eyes on processes
//! and files.
//!
//! Invariant: everything a test makes lives in one temporary folder, and every process it started is gone when it ends.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

pub mod binaries;
pub mod calls;
pub mod client;
pub mod crash_points;
pub mod delegation;
pub mod gateway;
pub mod http;
pub mod leftovers;
pub mod model;
pub mod processes;
pub mod session;
pub mod tls;
pub mod tree;
pub mod wait;

pub use client::{CallError, Client, ToolError};
pub use crash_points::{CrashPoints, Victim};
pub use delegation::Rig;
pub use gateway::{Ctl, Gateway};
pub use model::{Answer, Model};
pub use session::Session;
pub use wait::until;

/// A fresh key, as a client mints one for every call.
#[must_use]
pub fn key() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
