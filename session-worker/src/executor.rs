//! The tool executor: what the tools inside a session do on this machine.
//!
//! Each tool is a module of its own. The three writing tools are pure functions from bytes to bytes
//! (`edit`, `write`, `notebook_edit`); the one place that changes a file is `atomic_write`.

pub(crate) mod atomic_write;
pub(crate) mod edit;
pub(crate) mod notebook_edit;
pub(crate) mod write;
