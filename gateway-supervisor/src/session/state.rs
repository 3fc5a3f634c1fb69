//! What a session remembers: the fold of its records, holding only what is valid.
//!
//! Invariant: it changes by [`State::apply`] alone, and only by records that are durable.

mod accept;
mod earlier;
mod fold;
mod loss;
mod observed;
mod standing;
mod subsessions;
mod undo;
mod worktree;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use protocol::{
    action::{Prepared, Resolution},
    digest::Digest,
    failure::ErrorCode,
    id::{ActionId, IdempotencyKey, InstanceId, RecoveryId, ReplyId, RequestId, RunId, TurnId},
    lease::Lease,
    process_identity::ProcessIdentity,
    receipt::Receipt,
    recorded::Ack,
    session::RunOutcome,
    timestamp::Timestamp,
    tool::ToolName,
    turn::{Reply, Turn},
};

pub(crate) use accept::Accepted;
pub(crate) use loss::Findings;
pub(crate) use observed::Observed;
pub(crate) use subsessions::Subsession;
pub(crate) use undo::OpenUndo;
pub(crate) use worktree::Worktree;

use crate::ledger::record::Created;

/// A session.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// What it was born with.
    pub(crate) birth: Created,
    /// Whether the directory that it works in is there: a worktree is made after the birth.
    pub(crate) placed: bool,
    /// What became of its worktree, where it has one.
    pub(crate) worktree: Worktree,
    /// When it was born.
    pub(crate) born_at: Timestamp,
    /// When its newest record was made.
    pub(crate) changed_at: Timestamp,
    /// Its records.
    pub(crate) records: u64,
    /// Durable changes, without renewals.
    pub(crate) revision: u64,
    /// The newest lease, with the end that is recorded.
    pub(crate) lease: Lease,
    /// Whether it can go on.
    pub(crate) life: Life,
    /// Its worker.
    pub(crate) process: Process,
    /// How many workers were started.
    pub(crate) launches: u32,
    /// The version of the newest Claude Code.
    pub(crate) claude_version: Option<String>,
    /// The newest run.
    pub(crate) run: Option<Run>,
    /// Actions of runs that were lost, until ChatGPT answered a turn that told them.
    pub(crate) lost: Vec<ActionRecord>,
    /// What it has seen of the project's files.
    pub(crate) observed: Observed,
    /// Its sub-sessions, the oldest first.
    pub(crate) subsessions: Vec<Subsession>,
    /// The undo that has no outcome yet.
    pub(crate) undo: Option<OpenUndo>,
    /// The number of the newest record of an undo; 0 where there is none.
    pub(crate) newest_undo: u64,
    /// What must be acknowledged or mended.
    pub(crate) trouble: Trouble,
    /// Why the newest start failed.
    pub(crate) launch_error: Option<(ErrorCode, String)>,
    /// The keys that were used.
    pub(crate) keys: Keys,
    /// Acknowledgements of the current worker's requests.
    pub(crate) acks: BTreeMap<u64, Ack>,
}

/// Whether a session can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Life {
    /// It can.
    Live,
    /// Its lease ran out.
    LeaseExpired,
    /// It is being stopped.
    Stopping(StopRequest),
    /// It ended for good.
    Stopped(StopRequest),
}

/// A stop that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopRequest {
    /// The client's key.
    pub(crate) request_id: Option<RequestId>,
    /// Why.
    pub(crate) reason: Option<String>,
    /// When.
    pub(crate) at: Timestamp,
}

/// The session's worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Process {
    /// There is none.
    None,
    /// One may exist.
    Starting(Launch),
    /// One proved who it is.
    Attached {
        /// How it was started.
        launch: Launch,
        /// Its process.
        identity: ProcessIdentity,
        /// Its Claude Code.
        claude: Claude,
    },
}

/// How a worker was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Its number, from 1.
    pub(crate) number: u32,
    /// Its id.
    pub(crate) instance: InstanceId,
    /// Where it listens.
    pub(crate) socket: PathBuf,
}

/// The Claude Code of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claude {
    /// Coming up.
    Coming,
    /// Up.
    Running,
    /// Gone; the worker follows.
    Gone,
}

/// What stands in the way until `recover` looks at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Actions of which nobody knows what they did.
    pub(crate) indeterminate: Vec<ActionId>,
    /// The root is another directory than it was.
    pub(crate) root: Option<String>,
}

/// A prompt until its final answer.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Its id.
    pub(crate) run_id: RunId,
    /// Its number, from 1.
    pub(crate) sequence: u32,
    /// When it was asked for.
    pub(crate) started_at: Timestamp,
    /// The prompt.
    pub(crate) prompt: Arc<str>,
    /// The worker that carries it; none before one is started for it.
    pub(crate) launch: Option<u32>,
    /// Whether its process is started for it, rather than kept from the run before.
    pub(crate) new_process: bool,
    /// Turns so far.
    pub(crate) turns: u32,
    /// Its first turn, which named the tools.
    pub(crate) first_turn: Option<TurnId>,
    /// The turn that waits for ChatGPT.
    pub(crate) open: Option<Turn>,
    /// The newest reply.
    pub(crate) answer: Option<Answer>,
    /// Actions of the replies before it, their results shortened.
    pub(crate) earlier: Vec<ActionRecord>,
    /// How it stands.
    pub(crate) outcome: RunOutcome,
    /// What Claude Code said where it failed.
    pub(crate) detail: Option<String>,
}

/// A recorded reply and what became of its actions.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The reply.
    pub(crate) reply: Arc<Reply>,
    /// The proof that it is durable.
    pub(crate) ack: Option<Ack>,
    /// Its actions, in their order.
    pub(crate) actions: Vec<ActionRecord>,
}

/// An action and how far it came.
#[derive(Debug, Clone)]
pub(crate) struct ActionRecord {
    /// Its id.
    pub(crate) action_id: ActionId,
    /// Its tool.
    pub(crate) tool: ToolName,
    /// How far it came.
    pub(crate) progress: Progress,
}

/// How far an action came.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// Authorized by a recorded reply.
    Authorized,
    /// About to have its effect.
    Prepared(Box<Prepared>),
    /// Done.
    Done(Arc<Receipt>),
    /// Interrupted; what it did was found out.
    Resolved(Resolution),
}

/// The keys that were used, with the digest of their call's input.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    /// Of start and continue.
    pub(crate) runs: HashMap<IdempotencyKey, Digest>,
    /// Of replies.
    pub(crate) replies: HashMap<ReplyId, Digest>,
    /// Of recoveries, with the lease that each granted.
    pub(crate) recoveries: HashMap<RecoveryId, (Digest, Lease)>,
    /// Of stops.
    pub(crate) stops: HashMap<RequestId, Digest>,
}

impl ActionRecord {
    /// The receipt, where there is one.
    pub(crate) fn receipt(&self) -> Option<&Receipt> {
        match &self.progress {
            Progress::Done(receipt) => Some(receipt),
            Progress::Authorized | Progress::Prepared(_) | Progress::Resolved(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
