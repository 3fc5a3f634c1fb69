//! What the owner is told of an undo: its outcome, or why there is none and what gets further.

use protocol::{
    action::Resolution,
    failure::{ErrorCode, Failure, ToolErrorCode},
    id::SessionId,
    receipt::{Facts, Receipt},
    timestamp::Timestamp,
};

use crate::{
    control::answer::Undone,
    ledger::{
        changes::{Author, Change, Changes},
        record::UndoBegun,
    },
};

/// How a begun undo ended.
pub(super) enum Outcome {
    /// The process that carried it out said so.
    Received(Receipt),
    /// It was cut off, and the real file said so.
    Resolved {
        /// How it was cut off.
        why: String,
        /// What was found.
        resolution: Resolution,
        /// How it was found.
        detail: String,
    },
}

pub(super) fn no_worker() -> Failure {
    Failure::fixed(
        ErrorCode::NotAvailable,
        "the program session-worker is not beside gateway-supervisor, so nothing can be undone",
        "install it there again: all programs of a release stand in one folder",
    )
}

pub(super) fn not_kept(changes: &Changes, change: &Change) -> Failure {
    let action_id = change.action_id;
    let why = if change.kept {
        "is not kept any more: newer versions have its room, or it was taken away"
    } else {
        "was not kept: the disk did not take it"
    };
    let whose = changes.origin(change).map_or(String::new(), |id| format!(" of the sub-session {id}"));
    Failure::fixed(
        ErrorCode::NotAvailable,
        format!("what stood in {} before {action_id}{whose} {why}", change.path),
        "restore the file from a backup or from its repository",
    )
}

/// The change is undone already: the answer to the same call, sent again.
pub(super) fn already(session: SessionId, changes: &Changes, undo: &Change) -> Undone {
    let undoes = match undo.author {
        Author::Owner { undoes } => undoes,
        // Only an undo undoes.
        Author::Session | Author::Subsession(_) => undo.action_id,
    };
    Undone {
        native_session_id: session,
        action_id: undo.action_id,
        undoes,
        subsession_id: changes.origin(undo),
        path: undo.path.clone(),
        before: undo.before,
        after: undo.after,
        outcome: "already_undone",
        at: undo.at.to_string(),
        notes: Vec::new(),
    }
}

/// What a begun undo came to.
pub(super) fn answer(
    (changes, change): (&Changes, &Change),
    (session, begun): (SessionId, &UndoBegun),
    outcome: Result<Outcome, Failure>,
) -> Result<Undone, Failure> {
    let done = |path: String, notes: Vec<String>| Undone {
        native_session_id: session,
        action_id: begun.action_id,
        undoes: begun.undoes,
        subsession_id: begun.subsession_id,
        path,
        before: change.after,
        after: change.before,
        outcome: "applied",
        at: Timestamp::now().to_string(),
        notes,
    };
    match outcome? {
        Outcome::Received(receipt) if matches!(receipt.facts, Facts::Wrote { .. } | Facts::Removed(_)) => {
            Ok(done(change.path.clone(), notes(&receipt)))
        }
        Outcome::Received(receipt) => Err(refused((changes, change), (session, begun), &receipt)),
        Outcome::Resolved { resolution: Resolution::Applied, why, detail } => {
            let note = format!("{why}; what it had done was found out from the file: {detail}");
            Ok(done(change.path.clone(), vec![note]))
        }
        Outcome::Resolved { resolution: Resolution::Indeterminate, why, detail } => Err(Failure::fixed(
            ErrorCode::Indeterminate,
            format!(
                "undoing {}: {why}, and whether the file was changed can't be known: {detail}",
                begun.undoes
            ),
            format!("look at {}; {} is recorded as indeterminate", change.path, begun.action_id),
        )),
        Outcome::Resolved { why, .. } => Err(Failure::passing(
            ErrorCode::NotApplied,
            format!("undoing {}: {why}; nothing was changed", begun.undoes),
            "ask again; where it fails again, gatewayctl doctor may say why",
        )),
    }
}

/// The notes that stand in a receipt.
fn notes(receipt: &Receipt) -> Vec<String> {
    let note = |line: &str| Some(line.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    receipt.content.lines().filter_map(note).collect()
}

fn refused(
    (changes, change): (&Changes, &Change),
    (session, begun): (SessionId, &UndoBegun),
    receipt: &Receipt,
) -> Failure {
    let undoes = begun.undoes;
    let said = receipt.content.split_once(": ").map_or(receipt.content.as_str(), |(_, said)| said);
    let message = format!("undoing {undoes}: {said}");
    let look = format!("gatewayctl ledger {session} --diff shows what {undoes} changed");
    match receipt.error {
        Some(ToolErrorCode::StaleRead) => {
            Failure::fixed(ErrorCode::StaleRead, message, stale(changes, change, &look))
        }
        Some(ToolErrorCode::Indeterminate) => {
            Failure::fixed(ErrorCode::Indeterminate, message, format!("look at {}; {look}", change.path))
        }
        Some(_) | None => Failure::fixed(
            ErrorCode::NotApplied,
            message,
            format!("mend what is named, then ask again; {look}, to be taken back by hand"),
        ),
    }
}

/// What could be done where something else stands there: later changes of this session come first.
fn stale(changes: &Changes, change: &Change, look: &str) -> String {
    let later: Vec<String> = changes
        .iter()
        .skip_while(|earlier| earlier.action_id != change.action_id)
        .skip(1)
        .filter(|later| later.file == change.file && changes.stands(later))
        .map(|later| later.action_id.to_string())
        .collect();
    match later.as_slice() {
        [] => format!("it was changed outside this session since: {look}, to be taken back by hand"),
        [.., newest] => format!(
            "{} later change(s) of this session stand in the file: undo those first, the newest first, which is {newest}",
            later.len()
        ),
    }
}
