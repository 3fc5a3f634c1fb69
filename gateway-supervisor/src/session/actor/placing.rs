//! The session's worktree is made beside its task: a large one takes minutes, and calls are answered meanwhile.
//!
//! Invariant: at most one git works on it, and none is left when the work is called done or left.

use protocol::{failure::ErrorCode, workspace::Workspace};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{Actor, happenings::public};
use crate::{
    ledger::record::Entry,
    session::{converge::Placing, state::Life},
    worker::orphans::{self, Marks},
    workspace::{plan, worktree::WorktreeError},
};

/// What is being done.
#[derive(Debug, Default)]
pub(super) struct Work {
    task: Option<JoinHandle<Done>>,
    leave: CancellationToken,
    cleared: bool,
}

/// What was done.
#[derive(Debug)]
pub(super) enum Done {
    /// The worktree is there, or why it is not.
    Made(Result<Box<Workspace>, WorktreeError>),
    /// What was made of it is gone, or why it stays.
    Cleared(Result<(), WorktreeError>),
}

impl Work {
    /// How it stands.
    pub(super) fn placing(&self) -> Placing {
        match (&self.task, self.cleared) {
            (Some(_), false) if !self.leave.is_cancelled() => Placing::Making,
            (Some(_), _) => Placing::Clearing,
            (None, true) => Placing::Cleared,
            (None, false) => Placing::Rests,
        }
    }

    /// Ends it: its git is killed. What it leaves is cleared by whoever comes next.
    pub(super) fn leave(&self) {
        self.leave.cancel();
    }

    /// Waits for its end, for ever where nothing is done.
    pub(super) async fn done(&mut self) -> Result<Done, JoinError> {
        let Some(task) = &mut self.task else { return std::future::pending().await };
        let done = task.await;
        self.task = None;
        done
    }
}

impl Actor {
    pub(super) fn make_workspace(&mut self) {
        let (planned, means, marks) = self.means();
        self.placing.leave = means.leave.clone();
        self.placing.cleared = false;
        self.placing.task = Some(tokio::spawn(async move {
            // A git of a supervisor that was killed may still be at it.
            orphans::sweep(marks).await;
            Done::Made(plan::make(&planned, &means).await.map(Box::new))
        }));
    }

    pub(super) fn clear_workspace(&mut self) {
        let (planned, means, marks) = self.means();
        self.placing.leave = means.leave.clone();
        self.placing.cleared = true;
        self.placing.task = Some(tokio::spawn(async move {
            orphans::sweep(marks).await;
            Done::Cleared(plan::abandon(&planned, &means).await)
        }));
    }

    fn means(&self) -> (Workspace, plan::Means, Marks) {
        let marks = self.house.marks(self.state.birth.session_id);
        let means = plan::Means {
            config: self.house.config.clone(),
            umask: self.house.umask,
            scratch: marks.scratch.clone(),
            leave: CancellationToken::new(),
        };
        (self.state.birth.workspace.clone(), means, marks)
    }

    /// Records what became of the worktree. A failure ends the run; the next one tries again.
    pub(super) async fn worked(&mut self, done: Result<Done, JoinError>) {
        let session = self.state.birth.session_id;
        let entry = match done {
            Ok(Done::Made(Ok(workspace))) => Entry::WorkspaceReady { workspace },
            Ok(Done::Made(Err(error))) => {
                tracing::warn!(%session, %error, "the session's worktree was not made");
                self.not_made(&error.to_string())
            }
            Ok(Done::Cleared(Ok(()))) => return,
            Ok(Done::Cleared(Err(error))) => {
                return tracing::error!(%session, %error, "what was made of a worktree stays");
            }
            Err(error) => {
                tracing::error!(%session, %error, "making a worktree failed");
                self.not_made("the gateway failed")
            }
        };
        // A session that ends meanwhile has no use for it, and what was made of it goes with it.
        if self.state.life == Life::Live && self.state.open_run().is_some() {
            self.must_record(vec![entry]).await;
        }
    }

    fn not_made(&self, why: &str) -> Entry {
        Entry::LaunchFailed {
            launch: self.state.launches + 1,
            code: ErrorCode::LaunchFailed,
            message: format!("the session's worktree could not be made: {}", public(why)),
        }
    }
}
