//! The directories that sessions work in.

pub(crate) mod git;
pub(crate) mod worktree;
