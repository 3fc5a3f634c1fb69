//! `native_session_stop`: the end, once.

use protocol::{digest::Digest, id::RequestId};

use super::{
    decision::Decision,
    state::{Life, State},
};
use crate::ledger::record::Entry;

/// Asks for the end. Of a session that ends or has ended nothing more is asked; the client's key is taken down all the same,
/// so that the call can be made again.
pub(crate) fn decide(state: &State, key: Option<(RequestId, Digest)>, reason: Option<String>) -> Decision {
    match state.life {
        Life::Stopping(_) | Life::Stopped(_) if key.is_none() => Decision::Show,
        Life::Live | Life::LeaseExpired | Life::Stopping(_) | Life::Stopped(_) => {
            let (request_id, input) = key.unzip();
            Decision::Append(vec![Entry::StopRequested { request_id, input, reason }])
        }
    }
}
