//! The tool executor: what the tools inside a session do on this machine.
//!
//! A call arrives at `endpoint`, is decided by `authorize`, carried out by `carry_out` through `tools`. Each tool is a
//! module of its own. The three writing tools are pure functions from bytes to bytes (`edit`, `write`,
//! `notebook_edit`), which `writing` carries through; the one place that changes a file is `atomic_write`.

pub(crate) mod atomic_write;
pub(crate) mod authorize;
#[cfg(test)]
mod bench;
pub(crate) mod carry_out;
pub(crate) mod delegated;
pub(crate) mod display;
pub(crate) mod edit;
pub(crate) mod endpoint;
pub(crate) mod find_files;
#[cfg(test)]
mod fixture;
pub(crate) mod notebook_edit;
pub(crate) mod observed;
pub(crate) mod outcome;
pub(crate) mod paths;
pub(crate) mod read;
pub(crate) mod run_command;
pub(crate) mod search_text;
pub(crate) mod sys;
pub(crate) mod tools;
pub(crate) mod versions;
pub(crate) mod walk;
pub(crate) mod write;
pub(crate) mod writing;
