//! The end of a worktree: only when nothing in it would be lost.

use std::path::Path;

use super::super::git::{Git, GitError};

/// What only this worktree has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    /// Changed, untracked or ignored files that are in no commit.
    pub(crate) files: usize,
    /// Commits that no other branch, tag or remote reaches.
    pub(crate) commits: usize,
}

impl Holds {
    /// Whether removing it loses nothing.
    pub(crate) const fn nothing(&self) -> bool {
        self.files == 0 && self.commits == 0
    }
}

/// What the worktree at `root` on `branch` holds that stands nowhere else.
///
/// # Errors
/// Where git can't tell.
pub(crate) async fn what_it_holds(git: &Git, root: &Path, branch: &str) -> Result<Holds, GitError> {
    let inside = git.at(root).await?;
    let status = inside
        .run(&[
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--ignored=matching",
            "--ignore-submodules=dirty",
        ])
        .await?;
    let files = status.split(|byte| *byte == 0).filter(|change| !change.is_empty()).count();
    // For `--branches` the pattern is without `refs/heads/`.
    let exclude = format!("--exclude={branch}");
    let own = inside
        .run(&[
            "rev-list",
            "HEAD",
            &format!("refs/heads/{branch}"),
            "--not",
            &exclude,
            "--branches",
            "--tags",
            "--remotes",
        ])
        .await?;
    let commits = own.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    Ok(Holds { files, commits })
}

/// Removes the worktree and its branch where nothing would be lost; otherwise says what would be.
///
/// # Errors
/// Where git fails.
pub(crate) async fn remove(git: &Git, root: &Path, branch: &str) -> Result<Holds, GitError> {
    let holds = what_it_holds(git, root, branch).await?;
    if !holds.nothing() {
        return Ok(holds);
    }
    let tip = git.line(&["rev-parse", "--verify", &format!("refs/heads/{branch}")]).await?;
    let folder = root.to_string_lossy();
    // Without --force: what came in since the look makes git refuse.
    git.run(&["worktree", "remove", "--", &folder]).await?;
    git.run(&["update-ref", "-d", &format!("refs/heads/{branch}"), &tip]).await?;
    Ok(holds)
}
