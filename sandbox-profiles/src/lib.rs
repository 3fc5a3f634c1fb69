//! The walls: one typed description of what a process may do, enforced by Linux namespaces, Landlock and
//! seccomp, or by macOS Seatbelt.
//!
//! - [`SandboxSpec`] says what a process may read, write, reach and start.
//! - [`Protected`] is the one list of what no tool and no command may see: credential stores, the gateway's own
//!   state, other processes. Tools ask it with [`Protected::judge`], cages mask [`Protected::paths`].
//! - [`launch::spawn_command`] and [`launch::spawn_claude`] start a program behind its walls; the embedding program
//!   calls [`launch::helper_main_if_asked`] first thing in `main`.
//! - [`probe()`] tells whether the walls stand on this machine and what mends it where they don't.
//! - Outcomes that can fail are [`WallError`]s that name the missing piece and the line that mends it.
//!
//! Invariant: nothing here knows of sessions or MCP, and no wall is ever left out silently.

mod error;
mod hearing;
pub mod launch;
mod probe;
mod protected;
#[cfg(any(test, target_os = "macos"))]
mod seatbelt;
mod spec;

pub use error::{Feature, WallError};
pub use probe::{Probe, Verdict, probe};
pub use protected::{FileIdentity, Judgement, Protected, ProtectedBy, ProtectedSources, path_of};
pub use spec::{AbsolutePath, Execution, Network, Readable, ResourceLimits, SandboxSpec, Signals, SpecError};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(target_os = "linux")]
use linux as os;
#[cfg(target_os = "macos")]
use macos as os;
