//! What a call leads to, decided on the state alone.

use protocol::{
    digest::Digest,
    failure::Failure,
    id::{IdempotencyKey, LeaseId, RecoveryId, ReplyId, RequestId, TurnId},
    lease::Lease,
    timestamp::Timestamp,
};

use super::{continue_, recover, refusal, stop};
use super::{
    reply,
    state::{Life, State},
};
use crate::ledger::record::Entry;

/// A call on a session that exists, checked as far as it can be without the session.
#[derive(Debug)]
pub(crate) enum Command {
    /// Look.
    Status {
        /// The lease presented.
        lease: Option<LeaseId>,
    },
    /// The same start again.
    StartAgain {
        /// The key.
        key: IdempotencyKey,
        /// Digest of the input.
        input: Digest,
    },
    /// A new run.
    Continue {
        /// The lease presented.
        lease: Option<LeaseId>,
        /// The key.
        key: IdempotencyKey,
        /// Digest of the input.
        input: Digest,
        /// The prompt.
        prompt: String,
    },
    /// An answer to the open turn.
    Reply {
        /// The lease presented.
        lease: Option<LeaseId>,
        /// The key.
        key: ReplyId,
        /// Digest of the input.
        input: Digest,
        /// The turn it names; none where that is no id of a turn.
        turn: Option<TurnId>,
        /// What it says, or why it can't be taken.
        content: Result<reply::Content, Failure>,
    },
    /// A new lease.
    Recover {
        /// Whether the token is the right one.
        proven: bool,
        /// The key.
        key: RecoveryId,
        /// Digest of the input.
        input: Digest,
    },
    /// The end.
    Stop {
        /// The lease presented.
        lease: Option<LeaseId>,
        /// The key.
        key: RequestId,
        /// Digest of the input.
        input: Digest,
        /// Why.
        reason: Option<String>,
    },
    /// The end, by the owner.
    StopByOwner {
        /// Why.
        reason: Option<String>,
    },
}

/// What is decided.
#[derive(Debug)]
#[must_use]
pub(crate) enum Decision {
    /// Record this, then show the session.
    Append(Vec<Entry>),
    /// Nothing to record; show the session.
    Show,
    /// The call was made before. Where it granted a lease, that one is shown.
    Replay(Option<Lease>),
}

/// What is found where the session's root should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Root {
    /// The directory that it was born with.
    Same,
    /// Something else, or nothing.
    Replaced(String),
}

/// The moment and the world as a decision sees them.
#[derive(Debug, Clone)]
pub(crate) struct Circumstances {
    /// Now.
    pub(crate) now: Timestamp,
    /// When the lease ends, with the renewals that are not recorded.
    pub(crate) lease_ends: Timestamp,
    /// The session's root; looked at for the calls that need it.
    pub(crate) root: Root,
}

impl Command {
    /// Whether the decision depends on the session's root.
    pub(crate) const fn looks_at_root(&self) -> bool {
        match self {
            Self::Continue { .. } | Self::Recover { .. } => true,
            Self::Status { .. }
            | Self::StartAgain { .. }
            | Self::Reply { .. }
            | Self::Stop { .. }
            | Self::StopByOwner { .. } => false,
        }
    }

    /// Whether the call renews the lease where it is taken.
    pub(crate) const fn renews(&self) -> bool {
        match self {
            Self::Status { .. } | Self::Continue { .. } | Self::Reply { .. } => true,
            // Starting again and recovering again renew nothing; recovering grants a new lease; an end needs none.
            Self::StartAgain { .. } | Self::Recover { .. } | Self::Stop { .. } | Self::StopByOwner { .. } => {
                false
            }
        }
    }
}

/// Decides a call. In this order: session, lease, key, turn.
pub(crate) fn decide(state: &State, command: Command, at: &Circumstances) -> Result<Decision, Failure> {
    match command {
        Command::Status { lease } => admit(state, lease, at).map(|()| Decision::Show),
        Command::StartAgain { key, input } => match state.keys.runs.get(&key) {
            Some(used) if *used == input => Ok(Decision::Replay(Some(state.birth.lease))),
            Some(_) | None => Err(refusal::conflict("idempotency_key")),
        },
        Command::Continue { lease, key, input, prompt } => {
            admit(state, lease, at)?;
            match replayed(state.keys.runs.get(&key), input, "idempotency_key")? {
                Some(replay) => Ok(replay),
                None => continue_::decide(state, continue_::Asked { key, input, prompt }, at),
            }
        }
        Command::Reply { lease, key, input, turn, content } => {
            admit(state, lease, at)?;
            match replayed(state.keys.replies.get(&key), input, "reply_id")? {
                Some(replay) => Ok(replay),
                None => reply::decide(state, reply::Asked { key, input, turn, content }),
            }
        }
        Command::Recover { proven, key, input } => {
            recover::decide(state, recover::Asked { proven, key, input }, at)
        }
        Command::Stop { lease, key, input, reason } => {
            admit(state, lease, at)?;
            match replayed(state.keys.stops.get(&key), input, "request_id")? {
                Some(replay) => Ok(replay),
                None => Ok(stop::decide(state, Some((key, input)), reason)),
            }
        }
        Command::StopByOwner { reason } => Ok(stop::decide(state, None, reason)),
    }
}

/// Whether the lease is the newest one and holds.
fn admit(state: &State, presented: Option<LeaseId>, at: &Circumstances) -> Result<(), Failure> {
    let session = state.birth.session_id;
    if presented != Some(state.lease.lease_id) {
        return Err(refusal::lease_stale(session));
    }
    match state.life {
        Life::LeaseExpired => Err(refusal::lease_expired(session)),
        Life::Live if at.now >= at.lease_ends => Err(refusal::lease_expired(session)),
        // What ends or has ended needs no lease that holds.
        Life::Live | Life::Stopping(_) | Life::Stopped(_) => Ok(()),
    }
}

fn replayed(used: Option<&Digest>, input: Digest, field: &str) -> Result<Option<Decision>, Failure> {
    match used {
        Some(used) if *used == input => Ok(Some(Decision::Replay(None))),
        Some(_) => Err(refusal::conflict(field)),
        None => Ok(None),
    }
}
