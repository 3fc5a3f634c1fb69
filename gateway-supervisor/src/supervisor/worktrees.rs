//! The worktrees of sessions, for their owner: listed, and removed where nothing would be lost.

use protocol::{
    failure::{ErrorCode, Failure},
    id::SessionId,
    workspace::WorkspaceKind,
};

use super::gateway::Gateway;
use crate::{
    control::answer::WorktreeLine,
    session::state::State,
    workspace::{
        git::Git,
        worktree::remove::{self, Holds},
    },
};

impl Gateway {
    /// Every worktree that is there, the newest session's first.
    pub(super) async fn kept_worktrees(&self) -> Vec<WorktreeLine> {
        let mut lines = Vec::new();
        for row in self.0.house.ledger.sessions() {
            let Ok(state) = self.state(row.session_id).await else { continue };
            if let Some(line) = line(&state).filter(|line| std::path::Path::new(&line.path).exists()) {
                lines.push(line);
            }
        }
        lines
    }

    /// Removes the worktree of a session that has ended, and its branch, where nothing in them would be lost.
    pub(super) async fn end_worktree(&self, session: SessionId) -> Result<WorktreeLine, Failure> {
        let state = self.state(session).await?;
        let line = line(&state).ok_or_else(|| refused(format!("{session} has no worktree")))?;
        if !state.ended() {
            return Err(Failure::fixed(
                ErrorCode::Busy,
                format!("{session} has not ended, and its worktree is its own until then"),
                "stop it with gatewayctl stop, then remove the worktree",
            ));
        }
        let (config, workspace) = (&self.0.house.config, &state.birth.workspace);
        let failed =
            |error: &dyn std::fmt::Display| refused(format!("removing the worktree failed: {error}"));
        let git = Git::neutral(&config.git, &workspace.source).await.map_err(|error| failed(&error))?;
        let holds: Holds =
            remove::remove(&git, &workspace.root, &line.branch).await.map_err(|error| failed(&error))?;
        if !holds.nothing() {
            return Err(Failure::fixed(
                ErrorCode::Busy,
                format!(
                    "the worktree holds {} changed, untracked or ignored files and {} commits that stand nowhere else",
                    holds.files, holds.commits
                ),
                "take the work over first (gatewayctl worktree list says how), or remove it with git worktree remove --force",
            ));
        }
        Ok(line)
    }
}

fn refused(message: String) -> Failure {
    Failure::fixed(
        ErrorCode::InvalidArgument,
        message,
        "gatewayctl worktree list shows the worktrees there are",
    )
}

fn line(state: &State) -> Option<WorktreeLine> {
    let workspace = &state.birth.workspace;
    let WorkspaceKind::Worktree { branch, base_commit } = &workspace.kind else { return None };
    let (path, source) = (workspace.root.display().to_string(), workspace.source.display().to_string());
    Some(WorktreeLine {
        native_session_id: state.birth.session_id.to_string(),
        status: state.status(),
        take_over: format!("cd {path} && git add -A && git commit, then cd {source} && git merge {branch}"),
        path,
        branch: branch.clone(),
        base_commit: base_commit.clone(),
        source_directory: source,
    })
}
