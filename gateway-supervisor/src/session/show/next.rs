//! Which tool to call next, and with what, for every status.

use protocol::{
    id::LeaseId,
    session::{RunOutcome, Status},
};

use super::super::state::State;

/// The next step where the ledger refused what has to be recorded.
pub(super) const HELD_UP: &str = "the gateway can't write the session's record at the moment, so the session is held up and nothing of it is lost: tell the owner to look at the disk (gatewayctl doctor) and then to start the gateway again, and call native_session_status after that";

/// The next step for the one who holds `shown`.
pub(super) fn step(state: &State, shown: LeaseId) -> String {
    if shown != state.lease.lease_id && !state.ended() {
        return "this lease was replaced since: call native_session_recover with the recovery_token and a fresh recovery_id"
            .to_owned();
    }
    match state.status() {
        Status::Starting | Status::Running => {
            "call native_session_status with wait_seconds 50 until there is a pending_turn or a last_result".to_owned()
        }
        Status::WaitingForGpt => match state.open_turn() {
            Some(turn) => format!(
                "answer with native_session_reply_and_wait, turn_id {} and a fresh reply_id: tool_calls to act, or text alone to end the run",
                turn.turn_id
            ),
            None => "call native_session_status".to_owned(),
        },
        Status::Idle => idle(state).to_owned(),
        Status::Stopping => "call native_session_status with wait_seconds 50 until the status is stopped".to_owned(),
        Status::Stopped => "the session has ended for good; native_session_start starts another".to_owned(),
        Status::LeaseExpired => {
            "call native_session_recover with the recovery_token and a fresh recovery_id, then native_session_continue"
                .to_owned()
        }
        Status::Failed => {
            "mend what launch_error says, then call native_session_continue with the prompt and a fresh idempotency_key: the same Claude Code session is started again"
                .to_owned()
        }
        Status::RecoveryRequired => trouble(state),
    }
}

fn idle(state: &State) -> &'static str {
    match state.run.as_ref().map(|run| run.outcome) {
        Some(RunOutcome::Lost) => {
            "the run was lost: call native_session_continue with what is left to do; its first turn tells in recovered_actions what became of the lost run's actions"
        }
        Some(RunOutcome::Running | RunOutcome::Finished | RunOutcome::Failed | RunOutcome::Stopped)
        | None => {
            "call native_session_continue with the next prompt, or native_session_stop to end the session"
        }
    }
}

fn trouble(state: &State) -> String {
    match &state.trouble.root {
        Some(reason) => format!(
            "{reason}: put the original directory back and call native_session_recover, or end the session with native_session_stop"
        ),
        None => "what an interrupted action did can't be known: look at the files, then call native_session_recover with the recovery_token to acknowledge it"
            .to_owned(),
    }
}
