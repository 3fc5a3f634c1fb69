//! A session's worktree before it is there, and its making: planned before the session is recorded, made after.
//!
//! Invariant: what does not suit is refused before anything is recorded or made.
//! Invariant: a crash at any point is made good by the same call again: a worktree that is there and right is taken.

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt, path::PathBuf};

use protocol::{
    digest::hex,
    id::SessionId,
    workspace::{RootIdentity, Workspace, WorkspaceKind},
};

use super::{
    git::{Git, GitError},
    worktree::{self, Unsuitable, WorktreeError},
};
use crate::config::Config;

/// Bytes of a session's id in its branch's name.
const NAME_BYTES: usize = 4;

/// The folder of a session's worktree.
pub(crate) fn folder(config: &Config, session: SessionId) -> PathBuf {
    config.work.join("worktrees").join(session.to_string())
}

/// The workspace that a session from this source will have. Until it is made its identity is the source's.
///
/// # Errors
/// Says why the source does not suit.
pub(crate) async fn plan(
    source: Workspace,
    session: SessionId,
    config: &Config,
) -> Result<Workspace, Unsuitable> {
    let git = Git::neutral(&config.git.path, &config.git.user, &source.root).await?;
    let base = worktree::examine(&git, &source.root).await?;
    let tail = hex(session.as_bytes());
    let branch = format!("gateway/{}", &tail[tail.len() - 2 * NAME_BYTES..]);
    Ok(Workspace {
        kind: WorkspaceKind::Worktree { branch, base_commit: base.commit },
        root: folder(config, session),
        source: source.root,
        identity: source.identity,
        notes: base.notes,
    })
}

/// Makes the planned worktree under the user's `umask`, or takes the one that an interrupted making left whole.
///
/// # Errors
/// Says what git refused, or that something else is there.
pub(crate) async fn make(
    planned: &Workspace,
    config: &Config,
    umask: u32,
) -> Result<Workspace, WorktreeError> {
    let WorkspaceKind::Worktree { branch, base_commit } = &planned.kind else {
        return Ok(planned.clone());
    };
    let git = Git::neutral(&config.git.path, &config.git.user, &planned.source).await?.under_umask(umask);
    let made = if planned.root.symlink_metadata().is_ok() {
        worktree::adopt(&git, &planned.root, (branch, base_commit)).await?
    } else {
        let parent = planned.root.parent().unwrap_or(&config.work);
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(GitError::Io)?;
        worktree::make(&git, &planned.source, (&planned.root, branch)).await?
    };
    let identity = RootIdentity::at(&made.root).map_err(GitError::Io)?;
    let notes = if made.notes.is_empty() { planned.notes.clone() } else { made.notes };
    Ok(Workspace { kind: made.kind, root: made.root, source: planned.source.clone(), identity, notes })
}
