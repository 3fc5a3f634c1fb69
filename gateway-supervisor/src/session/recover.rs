//! `native_session_recover`: a new lease, what was indeterminate acknowledged, and a look at the root.

use std::time::Duration;

use protocol::{digest::Digest, failure::Failure, id::RecoveryId, lease::Lease};

use super::{
    decision::{Circumstances, Decision, Root},
    refusal,
    state::{Life, State},
};
use crate::ledger::record::Entry;

/// A recovery.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) proven: bool,
    pub(crate) key: RecoveryId,
    pub(crate) input: Digest,
}

pub(crate) fn decide(state: &State, asked: Asked, at: &Circumstances) -> Result<Decision, Failure> {
    let session = state.birth.session_id;
    if !asked.proven {
        return Err(refusal::recovery_denied(session));
    }
    if let Some((used, lease)) = state.keys.recoveries.get(&asked.key) {
        return if *used == asked.input {
            Ok(Decision::Replay(Some(*lease)))
        } else {
            Err(refusal::conflict("recovery_id"))
        };
    }
    match state.life {
        Life::Stopping(_) | Life::Stopped(_) => return Err(refusal::stopped(session)),
        Life::Live | Life::LeaseExpired => {}
    }
    let lease = Lease::grant(at.now, Duration::from_millis(state.birth.lease_millis));
    let mut entries = vec![Entry::Recovered { recovery_id: asked.key, input: asked.input, lease }];
    if let Root::Replaced(reason) = &at.root {
        entries.push(Entry::RootReplaced { reason: reason.clone() });
    }
    Ok(Decision::Append(entries))
}
