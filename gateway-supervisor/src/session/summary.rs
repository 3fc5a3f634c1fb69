//! What the list of sessions says of one, from its records.

use std::path::PathBuf;

use protocol::{digest::Digest, id::IdempotencyKey, session::Status, timestamp::Timestamp};

use super::state::{Life, State};
use crate::ledger::{Record, Summary};

/// The summary of all records of a session.
///
/// The ledger gives records that begin with a creation; of anything else there is only this to say: it can't go on.
#[must_use]
pub(crate) fn summarise(records: &[Record]) -> Summary {
    let Some((first, rest)) = records.split_first() else { return unknown() };
    let Ok(mut state) = State::born(first) else { return unknown() };
    for record in rest {
        state.apply(record, None);
    }
    of(&state)
}

/// The summary of a state.
pub(crate) fn of(state: &State) -> Summary {
    let working = state.launch().is_some() || state.open_run().is_some();
    Summary {
        records: state.records,
        status: state.status(),
        label: state.birth.label.clone(),
        created_at: state.born_at,
        updated_at: state.changed_at,
        working_directory: state.birth.workspace.root.clone(),
        // An undo that was cut off is looked after also where the session has ended.
        live: state.undo.is_some() || !state.ended() && (working || matches!(state.life, Life::Stopping(_))),
        idempotency_key: state.birth.idempotency_key.clone(),
        input: state.birth.input,
        terminal: state.ended(),
    }
}

fn unknown() -> Summary {
    let nothing = Digest::of(&[]);
    Summary {
        records: 0,
        status: Status::Failed,
        label: None,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        working_directory: PathBuf::from("/"),
        live: false,
        idempotency_key: IdempotencyKey::of_digest(nothing),
        input: nothing,
        terminal: true,
    }
}
