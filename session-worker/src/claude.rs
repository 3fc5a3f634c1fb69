//! The Claude Code child: its private home, its command line, its process, and what it says.

pub(crate) mod arguments;
pub(crate) mod child;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod home;
