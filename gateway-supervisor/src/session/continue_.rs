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
    match state.life {
        Life::Stopping(_) | Life::Stopped(_) => return Err(refusal::stopped(session)),
        Life::LeaseExpired => return Err(refusal::lease_expired(session)),
        Life::Live => {}
    }
    if let Some(why) = standing_in_the_way(state) {
        return Err(refusal::recovery_required(session, &why));
    }
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

/// What `recover` must look at before anything goes on.
pub(crate) fn standing_in_the_way(state: &State) -> Option<String> {
    if let Some(reason) = &state.trouble.root {
        return Some(reason.clone());
    }
    let open = state.trouble.indeterminate.len();
    (open > 0)
        .then(|| format!("what {open} interrupted action(s) did can't be known and must be acknowledged"))
}
