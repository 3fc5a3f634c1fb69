//! `native_session_continue`: the next prompt.

use protocol::{
    digest::Digest,
    failure::Failure,
    id::{IdempotencyKey, RunId},
};

use super::{
    decision::{Circumstances, Decision, Root},
    refusal,
    state::{Life, State},
};
use crate::ledger::record::{Entry, RunStarted};

/// A prompt that was not given before.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) key: IdempotencyKey,
    pub(crate) input: Digest,
    pub(crate) prompt: String,
}

pub(crate) fn decide(state: &State, asked: Asked, at: &Circumstances) -> Result<Decision, Failure> {
    let session = state.birth.session_id;
    may_go_on(state)?;
    if state.open_run().is_some() {
        return Err(refusal::run_open(session));
    }
    if let Root::Replaced(reason) = &at.root {
        return Err(refusal::recovery_required(session, reason));
    }
    let sequence = state.run.as_ref().map_or(1, |run| run.sequence + 1);
    let Asked { key: idempotency_key, input, prompt } = asked;
    let run = RunStarted { run_id: RunId::mint(), sequence, idempotency_key, input, prompt };
    Ok(Decision::Append(vec![Entry::RunStarted(run)]))
}

/// Whether the session takes a prompt or a reply at all.
///
/// # Errors
/// Where it has ended, or `recover` comes first.
pub(crate) fn may_go_on(state: &State) -> Result<(), Failure> {
    let session = state.birth.session_id;
    match state.life {
        Life::Stopping(_) | Life::Stopped(_) => Err(refusal::stopped(session)),
        Life::LeaseExpired => Err(refusal::lease_expired(session)),
        Life::Live => {
            standing_in_the_way(state).map_or(Ok(()), |why| Err(refusal::recovery_required(session, &why)))
        }
    }
}

/// What `recover` must look at before anything goes on.
fn standing_in_the_way(state: &State) -> Option<String> {
    if let Some(reason) = &state.trouble.root {
        return Some(reason.clone());
    }
    let open = state.trouble.indeterminate.len();
    (open > 0)
        .then(|| format!("what {open} interrupted action(s) did can't be known and must be acknowledged"))
}
