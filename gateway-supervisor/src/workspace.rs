//! The directories that sessions work in.

pub(crate) mod git;
pub(crate) mod identity;
pub(crate) mod plan;
pub(crate) mod take_over;
pub(crate) mod worktree;
