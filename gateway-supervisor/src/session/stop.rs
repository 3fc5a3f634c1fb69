//! `native_session_stop`: the end, once.

use protocol::{digest::Digest, id::RequestId};

use super::{
    decision::Decision,
    state::{Life, State},
};
use crate::ledger::record::Entry;

/// Asks for the end; of a session that ends or has ended, nothing more is asked.
pub(crate) fn decide(state: &State, key: Option<(RequestId, Digest)>, reason: Option<String>) -> Decision {
    match state.life {
        Life::Stopping(_) | Life::Stopped(_) => Decision::Show,
        Life::Live | Life::LeaseExpired => {
            let (request_id, input) = key.unzip();
            Decision::Append(vec![Entry::StopRequested { request_id, input, reason }])
        }
    }
}
