//! The end of a worktree: only when nothing in it would be lost.

use std::path::Path;

use super::{
    super::git::{Git, GitError},
    Branch, Site, WorktreeError, examine, leavings,
};

/// What a worktree is, to one who would remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing would be lost.
    Free {
        /// Where its branch stands.
        commit: String,
    },
    /// The folder and the branch are gone.
    Gone,
    /// It has what stands nowhere else.
    Holds {
        /// Changed, untracked or ignored files that are in no commit.
        files: usize,
        /// Commits that no other branch, tag or remote reaches.
        commits: usize,
    },
    /// Its owner uses it in a way that is the owner's to end.
    InUse(&'static str),
}

/// What the worktree in `folder` on `branch` of the repository where `git` stands holds that stands nowhere else. Stashes
/// don't count: git keeps them with the repository.
///
/// # Errors
/// Where git can't tell.
pub(crate) async fn look(git: &Git, folder: &Path, branch: &str) -> Result<Look, WorktreeError> {
    let reference = format!("refs/heads/{branch}");
    let tip = git.asked(&["rev-parse", "--verify", "--quiet", &reference]).await?;
    let there = folder.symlink_metadata().is_ok();
    let mut heads = Vec::new();
    let mut files = 0;
    if there {
        let inside = git.at(folder).await?;
        let own = inside.path(&["rev-parse", "--absolute-git-dir"]).await?;
        if own.join("locked").exists() {
            return Ok(Look::InUse("it is locked; end that with `git worktree unlock`"));
        }
        if examine::no_operation_under_way(&own).is_err() {
            return Ok(Look::InUse("a merge, rebase or the like is under way in it; finish or abort that"));
        }
        if inside.asked(&["symbolic-ref", "--quiet", "HEAD"]).await?.as_deref() != Some(&*reference) {
            return Ok(Look::InUse("another branch or commit is checked out in it; switch back first"));
        }
        files = changes(&inside).await?;
        // What belongs to this worktree alone goes with it.
        let alone =
            ["for-each-ref", "--format=%(objectname)", "refs/worktree", "refs/bisect", "refs/rewritten"];
        heads.extend(inside.line(&alone).await?.lines().map(str::to_owned));
    }
    let commit = match tip {
        Some(tip) => tip,
        None if there => return Ok(Look::InUse("its branch is gone; look at it with `git status` there")),
        None => return Ok(Look::Gone),
    };
    heads.push(commit.clone());
    let commits = alone(git, &heads, branch).await?;
    if (files, commits) != (0, 0) {
        return Ok(Look::Holds { files, commits });
    }
    // The removal itself is stricter: it believes no index that was told not to look at a file.
    let common = examine::repository(git).await?.common;
    leavings::look(git, &common, Site { folder, branch, commit: &commit }).await?;
    Ok(Look::Free { commit })
}

async fn changes(inside: &Git) -> Result<usize, GitError> {
    let everything = ["--untracked-files=all", "--ignored=matching", "--ignore-submodules=dirty"];
    Ok(inside.status(&everything).await?.len())
}

/// How many commits only these heads reach.
async fn alone(git: &Git, heads: &[String], branch: &str) -> Result<usize, GitError> {
    // For `--branches` the pattern is without `refs/heads/`.
    let exclude = format!("--exclude={branch}");
    let others = ["--not", &exclude, "--branches", "--tags", "--remotes"];
    let arguments: Vec<&str> =
        ["rev-list"].into_iter().chain(heads.iter().map(String::as_str)).chain(others).collect();
    let own = git.run(&arguments).await?;
    Ok(own.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count())
}

/// Removes the worktree that was found free at `site.commit`, or what an interrupted removal left of it, and its branch.
///
/// # Errors
/// Says what has come in since; then nothing was touched.
pub(crate) async fn remove(git: &Git, site: Site<'_>) -> Result<(), WorktreeError> {
    let common = examine::repository(git).await?.common;
    leavings::clear(git, &common, site, Branch::Deleted).await.map(|_| ())
}
