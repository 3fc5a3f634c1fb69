//! The worktrees of sessions, for their owner: listed, and removed where nothing would be lost.
//!
//! Invariant: a removal is recorded before it begins and when it is done; one that was interrupted is completed by the same
//! call again.

use std::fmt::Display;

use protocol::{
    crash,
    failure::{ErrorCode, Failure},
    id::SessionId,
    workspace::WorkspaceKind,
};

use super::gateway::Gateway;
use crate::{
    control::answer::WorktreeLine,
    ledger::record::{BranchFate, Entry},
    session::{
        actor::Ask,
        refusal,
        state::{State, Worktree},
    },
    workspace::{
        git::Git,
        take_over::TakeOver,
        worktree::{
            Site,
            remove::{self, Look},
        },
    },
};

impl Gateway {
    /// Every worktree that is there, the newest session's first.
    pub(super) async fn kept_worktrees(&self) -> Vec<WorktreeLine> {
        let mut lines = Vec::new();
        for row in self.0.house.ledger.sessions() {
            let Ok(state) = self.state(row.session_id).await else { continue };
            let is_there = match &state.worktree {
                Worktree::Kept => state.birth.workspace.root.exists(),
                Worktree::Removing { .. } => true,
                Worktree::Removed { .. } => false,
            };
            lines.extend(line(&state).filter(|_| is_there));
        }
        lines
    }

    /// Removes the worktree of a session that has ended, and its branch, where nothing in them would be lost.
    pub(super) async fn end_worktree(&self, session: SessionId) -> Result<WorktreeLine, Failure> {
        let _alone = self.0.removals.lock().await;
        let state = self.state(session).await?;
        let line = line(&state).ok_or_else(|| refused(format!("{session} has no worktree")))?;
        if !state.ended() {
            return Err(Failure::fixed(
                ErrorCode::Busy,
                format!("{session} has not ended, and its worktree is its own until then"),
                "stop it with gatewayctl stop, then remove the worktree",
            ));
        }
        let workspace = &state.birth.workspace;
        if !state.placed && !workspace.root.exists() {
            return Err(refused(format!("{session} has no worktree: it ended before that was made")));
        }
        let git = Git::neutral(&self.0.house.config.git, &workspace.source).await.map_err(failed)?;
        let commit = match &state.worktree {
            Worktree::Removed { .. } => return Ok(line),
            Worktree::Removing { commit } => commit.clone(),
            Worktree::Kept => {
                let looked = remove::look(&git, &workspace.root, &line.branch).await.map_err(failed)?;
                match free(looked)? {
                    Some(commit) => commit,
                    None => {
                        let commit = line.base_commit.clone();
                        let gone = Entry::WorktreeRemoved { commit, branch: BranchFate::WasGone };
                        return self.note(session, gone).await.map(|()| line);
                    }
                }
            }
        };
        if state.worktree == Worktree::Kept {
            self.note(session, Entry::WorktreeRemoving { commit: commit.clone() }).await?;
        }
        crash::point("supervisor-before-worktree-removal");
        let site = Site { folder: &workspace.root, branch: &line.branch, commit: &commit };
        remove::remove(&git, site).await.map_err(failed)?;
        crash::point("supervisor-after-worktree-removal");
        self.note(session, Entry::WorktreeRemoved { commit, branch: BranchFate::Deleted }).await?;
        Ok(line)
    }

    async fn note(&self, session: SessionId, entry: Entry) -> Result<(), Failure> {
        let handle = self.find(session).await?;
        let noted = handle.ask(|answer| Ask::Note(Box::new(entry), answer)).await;
        noted.map_err(|_| refusal::internal("reaching the session"))?
    }
}

/// Where its branch stands, where nothing would be lost; none where there is nothing.
fn free(look: Look) -> Result<Option<String>, Failure> {
    let (message, next) = match look {
        Look::Free { commit } => return Ok(Some(commit)),
        Look::Gone => return Ok(None),
        Look::Holds { files, commits } => (
            format!(
                "the worktree holds {files} changed, untracked or ignored files and {commits} commits that no other branch, tag or remote has"
            ),
            "take the work over first (gatewayctl worktree list says how), or remove it with git worktree remove --force",
        ),
        Look::InUse(how) => {
            (format!("the worktree is in use: {how}"), "then remove it with gatewayctl worktree remove")
        }
    };
    Err(Failure::fixed(ErrorCode::Busy, message, next))
}

fn refused(message: String) -> Failure {
    Failure::fixed(
        ErrorCode::InvalidArgument,
        message,
        "gatewayctl worktree list shows the worktrees there are",
    )
}

fn failed(error: impl Display) -> Failure {
    refused(format!("removing the worktree failed: {error}"))
}

fn line(state: &State) -> Option<WorktreeLine> {
    let workspace = &state.birth.workspace;
    let WorkspaceKind::Worktree { branch, base_commit } = &workspace.kind else { return None };
    let TakeOver { commit, merge } = TakeOver::of(workspace)?;
    Some(WorktreeLine {
        native_session_id: state.birth.session_id.to_string(),
        status: state.status(),
        take_over: format!("{commit} && {merge}"),
        path: workspace.root.display().to_string(),
        branch: branch.clone(),
        base_commit: base_commit.clone(),
        source_directory: workspace.source.display().to_string(),
        removal_interrupted: matches!(state.worktree, Worktree::Removing { .. }),
    })
}
