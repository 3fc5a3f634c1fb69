//! What is said of a session's worktree to whoever takes its work over.

use protocol::{session::Status, workspace::WorkspaceKind};

use super::super::state::{State, Worktree};
use crate::{ledger::record::BranchFate, workspace::take_over::TakeOver};

/// Where the work of a session that rests stands, and how its owner takes it over; or what became of it.
pub(super) fn note(state: &State) -> Option<String> {
    let workspace = &state.birth.workspace;
    let WorkspaceKind::Worktree { branch, .. } = &workspace.kind else { return None };
    let rests = match state.status() {
        Status::Starting | Status::WaitingForGpt | Status::Running | Status::Stopping => false,
        Status::Idle | Status::Stopped | Status::LeaseExpired | Status::Failed | Status::RecoveryRequired => {
            true
        }
    };
    if !state.placed || !rests {
        return None;
    }
    let session = state.birth.session_id;
    Some(match &state.worktree {
        Worktree::Kept => {
            let TakeOver { commit, merge } = TakeOver::of(workspace)?;
            format!(
                "the work stands on branch {branch} in {}, and nothing of it is committed by the gateway; its owner takes it over with `{commit}`, then `{merge}`, and clears up with `gatewayctl worktree remove {session}` once the session is stopped",
                workspace.root.display()
            )
        }
        Worktree::Removing { commit } => format!(
            "the removal of the worktree was begun at commit {commit} and interrupted; `gatewayctl worktree remove {session}` completes it"
        ),
        Worktree::Removed { commit, branch: fate } => {
            let fate = match fate {
                BranchFate::Deleted => "was deleted with it",
                BranchFate::WasGone => "was gone before",
            };
            format!("the worktree was removed by its owner; its branch {branch}, at commit {commit}, {fate}")
        }
    })
}
