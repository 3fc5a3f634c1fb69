//! What a worker tells the supervisor.

use serde::{Deserialize, Serialize};

use crate::{
    action::Prepared,
    digest::Digest,
    id::{InstanceId, RunId, SubsessionId, TurnId},
    process_identity::ProcessIdentity,
    receipt::Receipt,
    recorded::{RecordId, Recordable},
    session::RunOutcome,
    subagent::SubsessionEvent,
    turn::Turn,
};

/// A message to the supervisor. Append-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// The first message of every connection: how things stand.
    Attached(WorkerState),
    /// Something must be durable before the worker goes on. Repeated after a re-attach until it is acknowledged.
    Record {
        /// The id chosen for it.
        record: RecordId,
        /// What to record.
        what: WorkerRecord,
    },
    /// The worker ends now; its process tree is gone already.
    Ended(EndReason),
    /// The worker closes the connection in good order.
    Bye,
}

/// How things stand in a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerState {
    /// Which process of the session this is.
    pub instance: InstanceId,
    /// Its number among them.
    pub launch: u32,
    /// Its pid, start and boot.
    pub identity: ProcessIdentity,
    /// The run it carries; none before the first.
    pub run: Option<RunId>,
    /// The last turn whose reply it has released to Claude Code.
    pub released: Option<TurnId>,
    /// The highest number among its requests that was acknowledged.
    pub acknowledged: u64,
    /// What `claude --version` said, once known.
    pub claude_version: Option<String>,
}

/// What a worker asks to be recorded. Append-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerRecord {
    /// Claude Code runs.
    ClaudeStarted {
        /// What `claude --version` said.
        version: String,
    },
    /// A turn waits for ChatGPT.
    TurnOpened(Turn),
    /// An action is about to have its effect.
    Prepared(Prepared),
    /// An action is done.
    Receipt(Receipt),
    /// A run is over.
    RunEnded {
        /// The run.
        run_id: RunId,
        /// How it ended.
        outcome: RunOutcome,
        /// What Claude Code said, where it failed.
        detail: Option<String>,
    },
    /// Claude Code is gone and was not asked to go.
    ClaudeGone {
        /// Whether it ever asked for a turn.
        had_started: bool,
        /// Exit code or signal and the last lines of its stderr, for people.
        detail: String,
    },
    /// Something happened in a sub-session.
    Subsession {
        /// The sub-session.
        subsession_id: SubsessionId,
        /// What.
        event: SubsessionEvent,
    },
}

impl WorkerRecord {
    /// The digest that its acknowledgement names.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::TurnOpened(turn) => turn.record_digest(),
            Self::Prepared(prepared) => prepared.record_digest(),
            Self::Receipt(receipt) => receipt.record_digest(),
            Self::Subsession { event, .. } => event.digest(),
            Self::ClaudeStarted { .. } | Self::RunEnded { .. } | Self::ClaudeGone { .. } => {
                Digest::of(&serde_json::to_vec(self).unwrap_or_default())
            }
        }
    }
}

/// Why a worker ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// It was told to stop.
    Stopped,
    /// Its lease ran out.
    LeaseExpired,
    /// Claude Code did not come up.
    LaunchFailed {
        /// A sentence for the user.
        message: String,
        /// Whether a wall is missing rather than the program.
        wall: bool,
    },
    /// Claude Code is gone.
    ClaudeGone,
    /// The ledger refused a record.
    Conflict,
}
