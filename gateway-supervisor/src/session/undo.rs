//! An undo, decided: which change the owner means, whether it can be undone, and whether now.
//!
//! Invariant: pure. What stands in the file is compared by the process that carries the undo out, in the moment of the change.

use std::path::PathBuf;

use protocol::{
    failure::{ErrorCode, Failure},
    id::{ActionId, SessionId, SubsessionId},
};

use super::state::{Life, State};
use crate::ledger::{
    changes::{Change, Changes, Standing},
    record::UndoBegun,
};

/// As many candidates as a person reads.
const NAMED: usize = 5;

/// What the owner's words mean.
#[derive(Debug)]
pub(crate) enum Meant<'c> {
    /// This change, which was made and stands.
    Change(&'c Change),
    /// A change that this undo has undone already.
    Undone(&'c Change),
}

/// A change that is to be undone, and in how many records it was found.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The change.
    pub(crate) undoes: ActionId,
    /// The sub-session whose change it is.
    pub(crate) subsession_id: Option<SubsessionId>,
    /// The file, relative to the root.
    pub(crate) path: PathBuf,
    /// Records that were looked at.
    pub(crate) records: u64,
}

/// Whether it may begin.
#[derive(Debug)]
#[must_use]
pub(crate) enum Begin {
    /// It may: this is to be recorded.
    Now(UndoBegun),
    /// Another undo ended since the records were looked at.
    LookAgain,
}

/// The change that these words mean: an action's id, or the beginning of one, with or without `toolu_`.
pub(crate) fn meant<'c>(changes: &'c Changes, session: SessionId, words: &str) -> Result<Meant<'c>, Failure> {
    let action_id = named(changes, session, words)?;
    let change = changes.change(action_id);
    match change.map(|change| (change, change.standing)) {
        Some((change, Standing::Applied)) => {
            Ok(changes.undone_by(action_id).map_or(Meant::Change(change), Meant::Undone))
        }
        Some((_, Standing::Open)) => Err(Failure::passing(
            ErrorCode::Busy,
            format!("{action_id} has no outcome yet, so there is nothing to undo"),
            "undo it once its receipt is there: gatewayctl ledger shows it",
        )),
        Some((_, Standing::NotApplied)) | None => Err(Failure::fixed(
            ErrorCode::NotApplied,
            format!("{} changed no file, so there is nothing to undo", what(changes, action_id)),
            format!("gatewayctl ledger {session} --diff lists the changes that were made"),
        )),
        Some((change, Standing::Indeterminate)) => Err(Failure::fixed(
            ErrorCode::Indeterminate,
            format!("whether {action_id} changed {} can't be known, so it is not undone", change.path),
            format!("look at the file; gatewayctl ledger {session} --diff shows what the change was to be"),
        )),
    }
}

fn what(changes: &Changes, action_id: ActionId) -> String {
    let known = changes.actions().iter().find(|known| known.action_id == action_id);
    match known.map(|known| known.tool) {
        Some(Some(tool)) => format!("{action_id} ({})", tool.name()),
        Some(None) => format!("the undo {action_id}"),
        None => action_id.to_string(),
    }
}

fn named(changes: &Changes, session: SessionId, words: &str) -> Result<ActionId, Failure> {
    let beginning = if words.starts_with("toolu_") { words.to_owned() } else { format!("toolu_{words}") };
    let found: Vec<ActionId> = changes
        .actions()
        .iter()
        .map(|known| known.action_id)
        .filter(|id| !words.is_empty() && id.to_string().starts_with(&beginning))
        .collect();
    let refused = |message: String| {
        let next = format!("gatewayctl ledger {session} lists its actions, --diff those that changed files");
        Failure::fixed(ErrorCode::InvalidArgument, message, next)
    };
    match found.as_slice() {
        [only] => Ok(*only),
        [] => Err(refused(format!("no action of {session} has an id that begins with {words:?}"))),
        several => {
            let shown: Vec<String> = several.iter().take(NAMED).map(ToString::to_string).collect();
            let count = several.len();
            Err(refused(format!("{count} actions begin with {words:?}: {}", shown.join(" "))))
        }
    }
}

/// Whether the undo may begin with the session as it stands.
pub(crate) fn decide(state: &State, wanted: &Wanted) -> Result<Begin, Failure> {
    let session = state.birth.session_id;
    let busy = |why: String, next: &'static str| Err(Failure::passing(ErrorCode::Busy, why, next));
    if let Some(open) = &state.undo {
        let under_way = open.begun.undoes;
        return busy(
            format!("another undo in {session} has no outcome yet, that of {under_way}"),
            "ask again in a moment",
        );
    }
    if state.newest_undo > wanted.records {
        return Ok(Begin::LookAgain);
    }
    if matches!(state.life, Life::Stopping(_)) {
        return busy(format!("{session} is being stopped"), "ask again once it is stopped");
    }
    if let Some(sub) = state.active_subsession() {
        return busy(
            format!("the sub-session {} of {session} is active and has the right to write", sub.id),
            "ask again once it has ended; gatewayctl show lists it",
        );
    }
    if state.is_being_written(&wanted.path) {
        return busy(
            format!("an action of {session} is writing this very file"),
            "ask again once its receipt is there; gatewayctl ledger shows it",
        );
    }
    Ok(Begin::Now(UndoBegun {
        action_id: ActionId::mint(),
        undoes: wanted.undoes,
        subsession_id: wanted.subsession_id,
        path: wanted.path.clone(),
    }))
}
