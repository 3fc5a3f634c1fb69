//! The worktree of a session: made from a clean repository on a branch of its own, kept until its owner removes it.
//!
//! Invariant: of the source nothing changes but what the new branch and the new worktree are: one ref with its log, and one
//! folder below `.git/worktrees`.
//! Invariant: making goes on from wherever an interrupted making stopped, and takes back nothing but its own leavings.
//! Invariant: a worktree is only removed when everything in it can be reached from elsewhere.

mod branch;
mod examine;
mod leavings;
pub(crate) mod remove;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use protocol::crash;

pub(crate) use examine::{Unsuitable, examine};
pub(crate) use leavings::Branch;

use super::git::{Git, GitError};

/// Where a session's worktree is or will be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site<'a> {
    /// Its folder, in a canonical one.
    pub(crate) folder: &'a Path,
    /// Its branch.
    pub(crate) branch: &'a str,
    /// The commit that it is made from.
    pub(crate) commit: &'a str,
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
    /// What is there is not only what the gateway left.
    #[error("{0}; it was left as it is")]
    Foreign(String),
    /// The new worktree is not what it should be.
    #[error("the new worktree {0}")]
    Wrong(String),
}

impl Site<'_> {
    fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }
}

/// Makes the worktree of `site` from the repository where `git` stands, or takes the one that an interrupted making left whole: its canonical folder. What such a
/// making left otherwise is cleared first. A failure leaves nothing behind.
///
/// # Errors
/// Says why the source does not suit, what git refused, or what else stands in the place.
pub(crate) async fn make(git: &Git, site: Site<'_>) -> Result<PathBuf, WorktreeError> {
    let common = examine::repository(git).await?.common;
    if site.folder.symlink_metadata().is_ok() {
        match whole(git, &common, site).await {
            Ok(root) => return Ok(root),
            Err(error) => tracing::info!(%error, "what was begun of a worktree is begun again"),
        }
    }
    let left = leavings::clear(git, &common, site, Branch::Kept).await?;
    match fill(git, &common, site, left.branch).await {
        Ok(root) => Ok(root),
        // Whoever ended it clears it as well.
        Err(error @ WorktreeError::Git(GitError::Left)) => Err(error),
        Err(error) => {
            if let Err(left) = leavings::clear(git, &common, site, Branch::Deleted).await {
                tracing::error!(%left, "what was made of a worktree could not be taken back");
            }
            Err(error)
        }
    }
}

/// Takes back what was made of a worktree that no session ever worked in, and its branch.
///
/// # Errors
/// Says what stands there that is not only the gateway's own.
pub(crate) async fn abandon(git: &Git, site: Site<'_>) -> Result<(), WorktreeError> {
    let common = examine::repository(git).await?.common;
    leavings::clear(git, &common, site, Branch::Deleted).await.map(|_| ())
}

/// First the branch, its entry and an empty folder, which takes a moment; then the files, by one process.
async fn fill(
    git: &Git,
    common: &Path,
    site: Site<'_>,
    has_branch: Option<leavings::Found>,
) -> Result<PathBuf, WorktreeError> {
    let mut add: Vec<&OsStr> = ["worktree", "add", "--quiet", "--no-checkout"].map(OsStr::new).to_vec();
    let onto = match has_branch {
        Some(leavings::Found) => site.branch,
        None => {
            add.extend(["--no-track", "-b", site.branch].map(OsStr::new));
            site.commit
        }
    };
    add.extend([OsStr::new("--"), site.folder.as_os_str(), OsStr::new(onto)]);
    crash::point("supervisor-before-worktree");
    git.run(&add).await?;
    crash::point("supervisor-after-worktree-entry");
    // Nothing is written by way of a folder that leads elsewhere.
    let inside = anchored(git, common, site).await?;
    inside.run(&["-c", "core.sparseCheckout=false", "read-tree", "--reset", "-u", "HEAD"]).await?;
    crash::point("supervisor-after-worktree-files");
    whole(git, common, site).await
}

/// A git in the worktree, where that is of this repository, on its branch, at its commit, and its own top level.
async fn anchored(git: &Git, common: &Path, site: Site<'_>) -> Result<Git, WorktreeError> {
    let wrong = |what: &str| Err(WorktreeError::Wrong(what.to_owned()));
    let inside = git.at(site.folder).await?;
    if inside.path(&["rev-parse", "--show-toplevel"]).await? != site.folder {
        return wrong("is not its own top level: the repository's configuration leads elsewhere");
    }
    let of = inside.path(&["rev-parse", "--path-format=absolute", "--git-common-dir"]).await?;
    if of.canonicalize().map_err(GitError::Io)? != common {
        return wrong("belongs to another repository");
    }
    if inside.line(&["symbolic-ref", "HEAD"]).await? != site.reference() {
        return wrong("is not on its own branch");
    }
    if inside.line(&["rev-parse", "HEAD"]).await? != site.commit {
        return wrong("is not at the source's commit");
    }
    Ok(inside)
}

/// Whether the new worktree is whole: anchored, in use, and clean.
async fn whole(git: &Git, common: &Path, site: Site<'_>) -> Result<PathBuf, WorktreeError> {
    let inside = anchored(git, common, site).await?;
    let own = inside.path(&["rev-parse", "--absolute-git-dir"]).await?;
    if ["locked", "index.lock", "HEAD.lock"].iter().any(|name| own.join(name).exists()) {
        return Err(WorktreeError::Wrong("was not finished".to_owned()));
    }
    let changes = inside.status(&["--ignore-submodules=dirty"]).await?;
    let Some(first) = changes.first() else { return Ok(site.folder.to_owned()) };
    let first = String::from_utf8_lossy(first);
    Err(WorktreeError::Wrong(format!(
        "differs from its commit right after it was made ({first}); names that differ only in case, or end-of-line settings, do that"
    )))
}

#[cfg(test)]
mod tests;
