//! Why a call is refused, in one sentence, and the exact call that gets further.

use protocol::{
    failure::{ErrorCode, Failure},
    id::{SessionId, SubsessionId, TurnId},
    limits::{REPLY_BYTES, WAITERS},
    tool::ToolName,
};

use crate::ledger::LedgerError;

/// An argument that is out of its bounds.
pub(crate) fn argument(field: &str, why: impl std::fmt::Display) -> Failure {
    Failure::fixed(
        ErrorCode::InvalidArgument,
        format!("the argument `{field}` is not valid: {why}"),
        format!("make the same call again with a valid `{field}`; the refused call used up no key"),
    )
}

pub(crate) fn no_session(text: &str) -> Failure {
    let shown: String = text.chars().take(60).collect();
    Failure::fixed(
        ErrorCode::SessionNotFound,
        format!("there is no session {shown:?}"),
        "use the native_session_id that native_session_start returned, or start a session with native_session_start",
    )
}

pub(crate) fn lease_stale(session: SessionId) -> Failure {
    Failure::fixed(
        ErrorCode::LeaseStale,
        format!("the lease is not the newest one of {session}"),
        "use the lease_id of the newest result, or get a new one with native_session_recover and the recovery_token",
    )
}

pub(crate) fn lease_expired(session: SessionId) -> Failure {
    Failure::fixed(
        ErrorCode::LeaseExpired,
        format!(
            "the lease of {session} ran out because no call renewed it in time; its Claude Code was stopped"
        ),
        "call native_session_recover with the recovery_token and a fresh recovery_id, then native_session_continue with the new lease_id",
    )
}

pub(crate) fn recovery_denied(session: SessionId) -> Failure {
    Failure::fixed(
        ErrorCode::RecoveryDenied,
        format!("the recovery token is not the one of {session}"),
        "use the recovery_token that native_session_start returned for this session",
    )
}

pub(crate) fn conflict(field: &str) -> Failure {
    Failure::fixed(
        ErrorCode::IdempotencyConflict,
        format!("the `{field}` was used before with another input"),
        format!("send the first input again to get its result, or use a fresh `{field}` for a new call"),
    )
}

pub(crate) fn stopped(session: SessionId) -> Failure {
    Failure::fixed(
        ErrorCode::SessionStopped,
        format!("{session} has ended and takes nothing more"),
        "start another session with native_session_start; native_session_status still shows this one",
    )
}

pub(crate) fn run_open(session: SessionId) -> Failure {
    Failure::passing(
        ErrorCode::Busy,
        format!("{session} is in the middle of a run and takes no new prompt"),
        "answer its pending turn with native_session_reply_and_wait until the status is idle, then call native_session_continue again",
    )
}

pub(crate) fn recovery_required(session: SessionId, why: &str) -> Failure {
    Failure::fixed(
        ErrorCode::RecoveryRequired,
        format!("{session} can't go on: {why}"),
        "call native_session_recover with the recovery_token, or native_session_stop to end the session",
    )
}

pub(crate) fn turn_stale(open: Option<TurnId>) -> Failure {
    match open {
        Some(turn) => Failure::fixed(
            ErrorCode::TurnStale,
            format!("the reply is for another turn than the open one, {turn}"),
            "answer the pending_turn that native_session_status shows",
        ),
        None => Failure::fixed(
            ErrorCode::TurnStale,
            "the reply is for a turn that is not open: no turn waits for a reply now",
            "call native_session_status with wait_seconds to get the next pending_turn",
        ),
    }
}

pub(crate) fn reply_too_large(bytes: usize) -> Failure {
    Failure::fixed(
        ErrorCode::ReplyTooLarge,
        format!("the reply has {bytes} bytes of text and inputs; at most {REPLY_BYTES} are taken"),
        "send a shorter reply with the same turn_id and reply_id; the turn is still open",
    )
}

pub(crate) fn tool_not_allowed(name: &str, index: usize, allowed: &[ToolName]) -> Failure {
    let shown: String = name.chars().take(80).collect();
    let names: Vec<&str> = allowed.iter().map(|tool| tool.name()).collect();
    Failure::fixed(
        ErrorCode::ToolNotAllowed,
        format!("call {index} names the tool {shown:?}, which this session does not have"),
        format!(
            "send the reply again with tools among {}, spelled exactly so; the turn is still open",
            names.join(", ")
        ),
    )
}

pub(crate) fn not_available(what: &str, instead: &'static str) -> Failure {
    Failure::fixed(ErrorCode::NotAvailable, format!("{what} is not offered by this installation"), instead)
}

/// A delegated task has the right to write.
pub(crate) fn subsession_active(tool: ToolName, active: SubsessionId) -> Failure {
    Failure::passing(
        ErrorCode::Busy,
        format!("{} is refused while the sub-session {active} is active in the same worktree", tool.name()),
        format!(
            "the turn is still open: only read, ask deepseek_subagent_get with id {active} until it has ended, or end it with deepseek_subagent_stop"
        ),
    )
}

/// The skills of a start can't be kept: no session was made.
pub(crate) fn not_kept() -> Failure {
    Failure::passing(
        ErrorCode::LedgerUnavailable,
        "the instructions of the skills could not be kept on the disk, so no session was started",
        "make the same call again with the same key once the owner mended it; gatewayctl doctor says how",
    )
}

/// A frozen text is not there any more. What the call committed stays.
pub(crate) fn skill_lost(skill_id: &str) -> Failure {
    Failure::fixed(
        ErrorCode::LedgerUnavailable,
        format!(
            "the frozen instructions of the skill {skill_id:?} are missing or changed, so the turn that shows them is held back; it stays open and nothing else is lost"
        ),
        "make the same call again with the same key once the owner put the file back (the gateway's log says why it was refused), or end the session with native_session_stop and start another with the same skills",
    )
}

pub(crate) fn too_many_waiters(session: SessionId) -> Failure {
    Failure::passing(
        ErrorCode::LimitReached,
        format!("{WAITERS} calls wait for {session} already, so this one was not begun"),
        "call again with wait_seconds 0, or once another call has returned",
    )
}

pub(crate) fn shutting_down() -> Failure {
    Failure::passing(
        ErrorCode::ShuttingDown,
        "the gateway is going down and begins nothing new",
        "make the same call again with the same key in a few seconds; sessions go on after the restart",
    )
}

pub(crate) fn internal(what: &str) -> Failure {
    Failure::passing(
        ErrorCode::Internal,
        format!("the gateway failed at {what}"),
        "make the same call again with the same key; the gateway's log says more to its owner",
    )
}

/// The ledger did not take or give a record. The log gets the whole text, the caller none of its paths.
pub(crate) fn ledger(error: &LedgerError) -> Failure {
    tracing::error!(%error, "the ledger refused");
    let code = error.code();
    if code == ErrorCode::ShuttingDown {
        return shutting_down();
    }
    let message = if code == ErrorCode::LedgerUnavailable {
        "the session's record can't be read or written, so nothing was done"
    } else {
        "the session's record did not take this call, so nothing was done"
    };
    let next =
        "make the same call again with the same key once the owner mended it; gatewayctl doctor says how";
    if error.retryable() {
        Failure::passing(code, message, next)
    } else {
        Failure::fixed(code, message, next)
    }
}
