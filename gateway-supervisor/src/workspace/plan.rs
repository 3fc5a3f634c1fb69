//! A session's worktree before it is there, and its making: planned before the session is recorded, made after.
//!
//! Invariant: what does not suit is refused before anything is recorded or made.
//! Invariant: a crash at any point is made good by the same making again, at the commit that was recorded.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use protocol::{
    digest::hex,
    id::SessionId,
    workspace::{RootIdentity, Workspace, WorkspaceKind},
};

use tokio_util::sync::CancellationToken;

use super::{
    git::{Git, GitError},
    identity,
    worktree::{self, Site, Unsuitable, WorktreeError},
};
use crate::config::Config;

/// Bytes of a session's id in its branch's name.
const NAME_BYTES: usize = 4;

/// What git makes a worktree with, and where.
#[derive(Debug, Clone)]
pub(crate) struct Means {
    /// The settings.
    pub(crate) config: Config,
    /// The user's own umask.
    pub(crate) umask: u32,
    /// The session's scratch, by which what was left running is found.
    pub(crate) scratch: PathBuf,
    /// Ends it.
    pub(crate) leave: CancellationToken,
}

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
    let git = Git::neutral(&config.git, &source.root).await?;
    let base = worktree::examine(&git).await?;
    Ok(Workspace {
        kind: WorkspaceKind::Worktree { branch: free_branch(&git, session).await?, base_commit: base.commit },
        root: folder(config, session),
        source: source.root,
        identity: source.identity,
        notes: base.notes,
    })
}

/// A name that no branch has, and that no branch's name stands in the way of.
async fn free_branch(git: &Git, session: SessionId) -> Result<String, GitError> {
    let whole = hex(session.as_bytes());
    let short = &whole[whole.len() - 2 * NAME_BYTES..];
    let is_there = |name: &str| {
        let reference = format!("refs/heads/{name}");
        async move { Ok::<_, GitError>(git.asked(&["show-ref", "--verify", &reference]).await?.is_some()) }
    };
    let between = if is_there("gateway").await? { "-" } else { "/" };
    let name = format!("gateway{between}{short}");
    Ok(if is_there(&name).await? { format!("gateway{between}{whole}") } else { name })
}

/// Makes the planned worktree, or goes on where an interrupted making stopped.
///
/// # Errors
/// Says what git refused, or what else stands in the place.
pub(crate) async fn make(planned: &Workspace, means: &Means) -> Result<Workspace, WorktreeError> {
    let Some((branch, commit)) = branch(planned) else { return Ok(planned.clone()) };
    if let Some(reason) = identity::difference(&planned.source, &planned.identity) {
        return Err(WorktreeError::Foreign(reason));
    }
    let folder = place(&planned.root).map_err(GitError::Io)?;
    let git = git(planned, means).await?;
    let site = Site { folder: &folder, branch, commit };
    let root = worktree::make(&git, site).await?;
    let identity = RootIdentity::at(&root).map_err(GitError::Io)?;
    Ok(Workspace { root, identity, ..planned.clone() })
}

/// Takes back what was made of a planned worktree that is not wanted any more.
///
/// # Errors
/// Says what stands there that is not only the gateway's own.
pub(crate) async fn abandon(planned: &Workspace, means: &Means) -> Result<(), WorktreeError> {
    let Some((branch, commit)) = branch(planned) else { return Ok(()) };
    let folder = place(&planned.root).map_err(GitError::Io)?;
    let git = git(planned, means).await?;
    worktree::abandon(&git, Site { folder: &folder, branch, commit }).await
}

fn branch(workspace: &Workspace) -> Option<(&str, &str)> {
    match &workspace.kind {
        WorkspaceKind::ReadOnly | WorkspaceKind::Direct => None,
        WorkspaceKind::Worktree { branch, base_commit } => Some((branch, base_commit)),
    }
}

async fn git(planned: &Workspace, means: &Means) -> Result<Git, GitError> {
    let git = Git::neutral(&means.config.git, &planned.source).await?;
    Ok(git.under_umask(means.umask).marked(&means.scratch).until(means.leave.clone()))
}

/// The folder in its canonical one, which is made where it is not there: git names it so.
fn place(folder: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    Ok(fs::canonicalize(parent)?.join(name))
}
