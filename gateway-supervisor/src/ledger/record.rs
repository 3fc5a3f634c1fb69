//! What a journal holds: the facts of one session, in the order in which they became true.
//!
//! A session's whole state is the fold of its records. They are JSON, so that a person can read a journal and a newer release
//! can add fields.
//!
//! Invariant: entries and fields are only ever added. An entry that this release does not know makes the session read-only.

use std::path::PathBuf;

use protocol::{
    action::{Prepared, Resolution},
    digest::Digest,
    failure::ErrorCode,
    id::{
        ActionId, ClaudeSessionId, IdempotencyKey, InstanceId, RecoveryId, RequestId, RunId, SessionId,
        SubsessionId,
    },
    lease::Lease,
    process_identity::ProcessIdentity,
    profile::{Profile, SubagentPolicy},
    receipt::Receipt,
    recorded::RecordId,
    session::RunOutcome,
    skill::SkillSnapshot,
    subagent::SubsessionEvent,
    timestamp::Timestamp,
    turn::{Reply, Turn},
    workspace::Workspace,
};
use serde::{Deserialize, Serialize};

/// One durable fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When it was recorded.
    pub at: Timestamp,
    /// The fact.
    #[serde(flatten)]
    pub entry: Entry,
}

/// The facts of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// The session exists. Always the first record.
    Created(Box<Created>),
    /// A run was asked for.
    RunStarted(RunStarted),
    /// A worker is about to be started. From here on one may exist.
    WorkerStarting {
        /// Its number, from 1.
        launch: u32,
        /// Its id.
        instance: InstanceId,
        /// The socket it will listen on.
        socket: PathBuf,
    },
    /// The worker proved who it is.
    WorkerAttached {
        /// Its number.
        launch: u32,
        /// Its process.
        identity: ProcessIdentity,
    },
    /// Claude Code runs.
    ClaudeStarted {
        /// The worker's request.
        request: RecordId,
        /// What `claude --version` said.
        version: String,
    },
    /// A turn waits for ChatGPT.
    TurnOpened {
        /// The worker's request.
        request: RecordId,
        /// The turn.
        turn: Turn,
    },
    /// ChatGPT answered the open turn.
    Replied {
        /// Digest of the call's input.
        input: Digest,
        /// The reply, with the ids of its actions.
        reply: Reply,
    },
    /// An action is about to have its effect.
    Prepared {
        /// The worker's request.
        request: RecordId,
        /// The prepared action.
        prepared: Prepared,
    },
    /// An action is done.
    Receipt {
        /// The worker's request.
        request: RecordId,
        /// Its receipt.
        receipt: Receipt,
    },
    /// A run is over.
    RunEnded {
        /// The worker's request; none where the supervisor found it out.
        request: Option<RecordId>,
        /// The run.
        run_id: RunId,
        /// How it ended.
        outcome: RunOutcome,
        /// What Claude Code said, where it failed.
        detail: Option<String>,
    },
    /// Claude Code is gone and was not asked to go. Its worker follows.
    ClaudeGone {
        /// The worker's request.
        request: RecordId,
        /// Whether it ever asked for a turn.
        had_started: bool,
        /// How it ended, for people.
        detail: String,
    },
    /// The session's worktree is made: this is where it works from now on.
    WorkspaceReady {
        /// The workspace.
        workspace: Box<Workspace>,
    },
    /// The directory under the session's root path is no longer the one that the session was born with.
    RootReplaced {
        /// What differs, as a public sentence.
        reason: String,
    },
    /// A worker did not come up.
    LaunchFailed {
        /// Its number.
        launch: u32,
        /// The public code.
        code: ErrorCode,
        /// The public sentence.
        message: String,
    },
    /// A worker is gone, in whatever way.
    WorkerGone {
        /// Its number.
        launch: u32,
        /// What is known about it, for people.
        detail: String,
    },
    /// What an interrupted action did was found out.
    Resolved {
        /// The action.
        action_id: ActionId,
        /// What was found.
        resolution: Resolution,
        /// How it was found, for people.
        detail: String,
    },
    /// Something happened in a sub-session. Its beginning is the preparation of the action that starts it.
    Subsession {
        /// The worker's request; none where the supervisor found it out.
        request: Option<RecordId>,
        /// The sub-session.
        subsession_id: SubsessionId,
        /// What.
        event: SubsessionEvent,
    },
    /// The lease was renewed.
    LeaseRenewed {
        /// When it ends now.
        expires_at: Timestamp,
    },
    /// The lease ran out.
    LeaseExpired,
    /// A new lease was granted, and what was indeterminate is acknowledged.
    Recovered {
        /// The client's key.
        recovery_id: RecoveryId,
        /// Digest of the call's input.
        input: Digest,
        /// The new lease.
        lease: Lease,
    },
    /// A stop was asked for.
    StopRequested {
        /// The client's key; none where the owner asked.
        request_id: Option<RequestId>,
        /// Digest of the call's input; none where the owner asked.
        input: Option<Digest>,
        /// Why.
        reason: Option<String>,
    },
    /// Nothing of the session runs any more, for good.
    Stopped,
    /// The owner undoes a change: it is allowed, and is an action of its own from here on.
    UndoBegun(UndoBegun),
    /// The undo is about to have its effect.
    UndoPrepared {
        /// The prepared action.
        prepared: Prepared,
    },
    /// The undo is done, or was refused by what stands there. An interrupted one is `Resolved`.
    UndoReceipt {
        /// Its receipt.
        receipt: Receipt,
    },
    /// The worktree is about to be removed, by its owner's word: nothing in it stands nowhere else.
    WorktreeRemoving {
        /// Where its branch stood.
        commit: String,
    },
    /// The worktree is removed.
    WorktreeRemoved {
        /// Where its branch stood.
        commit: String,
        /// What became of the branch.
        branch: BranchFate,
    },
}

/// What became of a worktree's branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchFate {
    /// It was deleted with the worktree.
    Deleted,
    /// It was gone already.
    WasGone,
}

/// An undo that may happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoBegun {
    /// The undo's own action.
    pub action_id: ActionId,
    /// The change that it undoes: an action's, or an undo's.
    pub undoes: ActionId,
    /// The sub-session that made the change; none where the session or the owner did.
    pub subsession_id: Option<SubsessionId>,
    /// The file, relative to the session's root.
    pub path: PathBuf,
}

/// What a session is born with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The session.
    pub session_id: SessionId,
    /// Claude Code's session.
    pub claude_session_id: ClaudeSessionId,
    /// The client's key.
    pub idempotency_key: IdempotencyKey,
    /// Digest of the call's input.
    pub input: Digest,
    /// Where it works.
    pub workspace: Workspace,
    /// What it may do.
    pub profile: Profile,
    /// Whether it may delegate.
    pub subagent_policy: SubagentPolicy,
    /// The client's name for it.
    pub label: Option<String>,
    /// Its skills, without their texts.
    pub skills: Vec<SkillSnapshot>,
    /// Its first lease.
    pub lease: Lease,
    /// How long a lease holds, in milliseconds.
    pub lease_millis: u64,
    /// Fingerprint of the conversation that started it.
    pub conversation: Option<Digest>,
    /// The release that made it.
    pub release: String,
}

/// A run: one prompt until its final answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run.
    pub run_id: RunId,
    /// Its number, from 1.
    pub sequence: u32,
    /// The client's key of `start` or `continue`.
    pub idempotency_key: IdempotencyKey,
    /// Digest of the call's input.
    pub input: Digest,
    /// The prompt.
    pub prompt: String,
}
