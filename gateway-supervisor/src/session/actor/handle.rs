//! The way to a session's task: what can be asked of it, and what can be watched.

use std::sync::Arc;

use protocol::{
    failure::Failure,
    id::{LeaseId, SessionId, TurnId},
    lease::Lease,
    session::Status,
    tool::ToolName,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::undoing::UndoAsk;
use crate::{
    ledger::record::Entry,
    session::{decision::Command, view::SessionView, wait::Waiters},
};

/// Where the answer to a call goes.
pub(crate) type Answer = oneshot::Sender<Result<Committed, Failure>>;

/// What is asked of a session.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Decide a call, and make it durable.
    Commit(Box<Command>, Answer),
    /// Show the session.
    View(Shown, oneshot::Sender<Box<SessionView>>),
    /// Take an undo a step further.
    Undo(UndoAsk),
    /// Record what the owner does with the worktree of a session that has ended.
    Note(Box<Entry>, oneshot::Sender<Result<(), Failure>>),
    /// Let go of the worker, which goes on alone.
    Detach(oneshot::Sender<()>),
}

/// A call that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Whether it was made before.
    pub(crate) replay: bool,
    /// The lease to show: the one that the call granted, or the newest.
    pub(crate) lease: LeaseId,
    /// When that lease ended, where it is not the newest.
    pub(crate) granted: Option<Lease>,
}

/// How a session is to be shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    /// Whether the call was made before.
    pub(crate) replay: bool,
    /// A lease to show instead of the newest.
    pub(crate) lease: Option<Lease>,
    /// Whether the recovery token is shown.
    pub(crate) with_token: bool,
}

/// What those who wait for a session look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pulse {
    /// Where it stands.
    pub(crate) status: Status,
    /// The open turn.
    pub(crate) turn: Option<TurnId>,
    /// The newest lease.
    pub(crate) lease: LeaseId,
    /// Durable changes.
    pub(crate) revision: u64,
    /// Whether a worker may exist and is not attached yet.
    pub(crate) unsettled: bool,
    /// Whether a live Claude Code is attached.
    pub(crate) attached: bool,
    /// Whether the ledger does not take what has to be recorded.
    pub(crate) held_up: bool,
}

/// The way to a session's task.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    /// The session.
    pub(crate) session_id: SessionId,
    /// Its tools.
    pub(crate) tools: Arc<[ToolName]>,
    asks: mpsc::Sender<Ask>,
    pulse: watch::Receiver<Pulse>,
    waiters: Arc<Waiters>,
}

/// The task is gone; the session has to be opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskGone;

impl Handle {
    pub(super) fn new(
        (session_id, tools): (SessionId, Arc<[ToolName]>),
        asks: mpsc::Sender<Ask>,
        pulse: watch::Receiver<Pulse>,
        waiters: Arc<Waiters>,
    ) -> Self {
        Self { session_id, tools, asks, pulse, waiters }
    }

    /// Asks the task and waits for its answer.
    pub(crate) async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, TaskGone> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(ask(answer)).await.map_err(|_| TaskGone)?;
        answered.await.map_err(|_| TaskGone)
    }

    /// What changes.
    pub(crate) fn pulse(&self) -> watch::Receiver<Pulse> {
        self.pulse.clone()
    }

    /// Whether the task still takes calls.
    pub(crate) fn is_open(&self) -> bool {
        !self.asks.is_closed()
    }

    /// The calls that wait.
    pub(crate) fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }
}
