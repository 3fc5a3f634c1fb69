//! What the supervisor tells a worker.

use serde::{Deserialize, Serialize};

use crate::{
    id::RunId,
    recorded::{Ack, RecordId},
    timestamp::Timestamp,
    turn::Reply,
};

/// A message to the worker. Append-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker {
    /// A run begins: give Claude Code this prompt. Repeated after a re-attach until the worker knows the run.
    BeginRun {
        /// The run.
        run_id: RunId,
        /// The prompt.
        prompt: String,
    },
    /// What the worker asked to be recorded is durable.
    Ack(Ack),
    /// What the worker asked to be recorded contradicts the ledger. The worker ends.
    Conflict {
        /// The request.
        record: RecordId,
        /// Why.
        reason: String,
    },
    /// ChatGPT answered the open turn. Repeated after a re-attach until the worker has released it.
    DeliverReply {
        /// The reply.
        reply: Reply,
        /// The proof that it is durable.
        ack: Ack,
    },
    /// The lease was renewed.
    Lease {
        /// When it ends now.
        expires_at: Timestamp,
    },
    /// End Claude Code and everything below it, then this process.
    Stop(StopReason),
    /// The supervisor closes the connection in good order.
    Bye,
}

/// Why a worker is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The session was stopped.
    Stopped,
    /// The lease ran out.
    LeaseExpired,
    /// The session goes on without this process.
    Replaced,
}
