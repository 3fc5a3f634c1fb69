//! The directories that sessions work in.

#[cfg_attr(not(test), expect(dead_code, reason = "the profiles that write are not offered yet"))]
pub(crate) mod git;
pub(crate) mod identity;
#[cfg_attr(not(test), expect(dead_code, reason = "the profiles that write are not offered yet"))]
pub(crate) mod worktree;
