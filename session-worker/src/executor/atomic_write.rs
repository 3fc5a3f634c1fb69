//! Replaces one file of the project: staged beside it, compared, swapped, made durable (X7).
//!
//! ```text
//! Root::open, Root::locate      which file; judged by names and by handles
//! Current::look                 what it holds now; refuses what tools never write
//! Current::stage                the new content beside it, with the old file's mode and owner
//! Unsynced::prepared            what is recorded before anything of the project changes
//! Unsynced::sync                the same on the disk; may be while it is recorded
//! Staged::commit(recorded)      compare, exchange, verify, sync; only with the record in hand
//! Current::removal, commit      the same for a file that is taken away: an undo of what made it
//! observe                       what stands there now, where that is not known
//! ```
//!
//! Invariant: paths are walked by handle from the root's handle; no step follows a link or a string of several names.
//! Invariant: before the record is durable the project is unchanged but for the staged file, whose name is known.
//! Invariant: nothing else renames or removes a file of the project.
//!
//! Limits, by nature: a program that holds the old file open and writes to it after the exchange writes to a file that
//! has no name any more; and a directory moved in the very moment of the exchange takes the write along (that is said).
#![expect(clippy::disallowed_methods, reason = "the one place that puts a file in place of another")]

mod alone;
mod attributes;
mod commit;
mod current;
mod observe;
mod refusal;
mod removal;
mod staged;
mod sys;
mod target;
mod temp_name;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use self::{
    commit::Commit,
    current::Current,
    observe::Observed,
    refusal::Refusal,
    removal::Removal,
    staged::{NewModes, Staged, Unsynced},
    target::Root,
    temp_name::TempName,
};
