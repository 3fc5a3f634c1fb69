//! The worktree of a session: made from a clean repository on a branch of its own, kept until its owner removes it.
//!
//! Invariant: of the source nothing changes but what the new branch and the new worktree are: one ref with its log, and one
//! folder below `.git/worktrees`.
//! Invariant: a worktree is only removed when everything in it can be reached from elsewhere.

mod examine;
pub(crate) mod remove;

use std::path::{Path, PathBuf};

use protocol::workspace::WorkspaceKind;

pub(crate) use examine::{Unsuitable, examine};

use super::git::{Git, GitError};

/// A worktree that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    /// Its branch and the commit it was made from.
    pub(crate) kind: WorkspaceKind,
    /// Its canonical folder.
    pub(crate) root: PathBuf,
    /// What its owner should know.
    pub(crate) notes: Vec<String>,
}

/// Why no worktree was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorktreeError {
    /// The directory does not suit.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The branch is there already.
    #[error("the branch {0} exists already")]
    Taken(String),
    /// The new worktree is not what it should be.
    #[error("the new worktree {0}")]
    Wrong(String),
}

/// Makes the worktree `folder` from `source` on the new branch `branch`. A failure leaves nothing behind.
///
/// # Errors
/// Says why the source does not suit, or what git refused.
pub(crate) async fn make(
    git: &Git,
    source: &Path,
    (folder, branch): (&Path, &str),
) -> Result<Made, WorktreeError> {
    let base = examine(git, source).await?;
    let Some(target) = folder.to_str() else {
        return Err(WorktreeError::Wrong("would be at a path that is not UTF-8".to_owned()));
    };
    // A branch that is there already must survive a failure: what `undo` takes back is only ever what was made here.
    if git.run(&["show-ref", "--verify", "--quiet", &format!("refs/heads/{branch}")]).await.is_ok() {
        return Err(WorktreeError::Taken(branch.to_owned()));
    }
    let added = git
        .run(&["worktree", "add", "--quiet", "--no-track", "-b", branch, "--", target, &base.commit])
        .await;
    let made = match added {
        Ok(_) => inspect(git, folder, &base.commit).await,
        Err(error) => Err(error.into()),
    };
    match made {
        Ok(root) => Ok(Made {
            kind: WorkspaceKind::Worktree { branch: branch.to_owned(), base_commit: base.commit },
            root,
            notes: base.notes,
        }),
        Err(error) => {
            undo(git, target, (branch, &base.commit)).await;
            Err(error)
        }
    }
}

/// Takes the worktree at `folder` that an interrupted `make` left, where it is whole: of this repository, on its branch, at
/// its commit, unchanged.
///
/// # Errors
/// Says what it is instead, or that git can't tell.
pub(crate) async fn adopt(
    git: &Git,
    folder: &Path,
    (branch, commit): (&str, &str),
) -> Result<Made, WorktreeError> {
    let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let inside = git.at(folder);
    if inside.line(&common).await? != git.line(&common).await? {
        return Err(WorktreeError::Wrong("belongs to another repository".to_owned()));
    }
    if inside.line(&["symbolic-ref", "HEAD"]).await? != format!("refs/heads/{branch}") {
        return Err(WorktreeError::Wrong("is not on its own branch".to_owned()));
    }
    let root = inspect(git, folder, commit).await?;
    let kind = WorkspaceKind::Worktree { branch: branch.to_owned(), base_commit: commit.to_owned() };
    Ok(Made { kind, root, notes: Vec::new() })
}

/// Whether the new worktree is at the commit and clean.
async fn inspect(git: &Git, folder: &Path, commit: &str) -> Result<PathBuf, WorktreeError> {
    let root = folder.canonicalize().map_err(GitError::Io)?;
    let inside = git.at(&root);
    if inside.line(&["rev-parse", "HEAD"]).await? != commit {
        return Err(WorktreeError::Wrong("is not at the source's commit".to_owned()));
    }
    let status = inside.run(&["status", "--porcelain=v1", "-z", "--ignore-submodules=dirty"]).await?;
    if status.is_empty() {
        return Ok(root);
    }
    let first = String::from_utf8_lossy(status.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
    Err(WorktreeError::Wrong(format!(
        "differs from its commit right after it was made ({first}); names that differ only in case, or end-of-line settings, do that"
    )))
}

/// Takes back what a failed `make` left. The branch goes only where it still is what `make` made.
async fn undo(git: &Git, folder: &str, (branch, commit): (&str, &str)) {
    let removed = git.run(&["worktree", "remove", "--force", "--", folder]).await;
    let reference = format!("refs/heads/{branch}");
    let deleted = git.run(&["update-ref", "-d", &reference, commit]).await;
    if let (Err(error), _) | (Ok(_), Err(error)) = (&removed, &deleted) {
        tracing::debug!(%error, "a worktree that was not made left nothing to take back, or something that stayed");
    }
}

#[cfg(test)]
mod tests;
