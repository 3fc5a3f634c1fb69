//! The worker's life as a pure function: [`step`] takes a state and an event and says what follows.
//!
//! Invariant: it is total: every event is answered in every state.
//! Invariant: a run ends at most once, and a failed start is never taken for a run's result.

#[cfg(test)]
mod tests;

use protocol::{
    id::RunId,
    session::RunOutcome,
    wire::{to_supervisor::EndReason, to_worker::StopReason},
};

use crate::claude::events::RunEnd;

/// Where the worker stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Claude Code comes up; it has not asked its model for anything yet.
    Starting(Option<RunId>),
    /// The run is over; another one may begin.
    Idle(RunId),
    /// Claude Code is at work between two turns.
    Running(RunId),
    /// A turn waits for its reply.
    Waiting(RunId),
    /// The final reply is released; Claude Code will say that the run is over.
    Answered(RunId),
    /// Everything is being ended.
    Ending(EndReason),
}

/// What happens to the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The supervisor begins a run.
    BeginRun(RunId),
    /// Claude Code asked for a turn.
    TurnOpened,
    /// A reply was released to Claude Code.
    Released(Reply),
    /// Claude Code says that the run is over.
    RunEnded(RunEnd),
    /// Claude Code did not come up; a sentence for the user, and whether a wall is missing.
    LaunchFailed(String, Missing),
    /// Claude Code is gone; how, for people.
    ClaudeGone(String),
    /// The lease is over.
    LeaseOver,
    /// The supervisor ends this worker.
    Stop(StopReason),
    /// The ledger refuses a record.
    Conflict,
    /// The system ends this process.
    Terminated,
}

/// What a released reply means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It has tool calls; another turn follows.
    Calls,
    /// It is text alone: it ends the run.
    Final,
}

/// What a launch lacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The program, or something that it needs.
    Program,
    /// A wall.
    Wall,
}

/// What the loop has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Give Claude Code the run's prompt.
    Prompt(RunId),
    /// Have the run's end recorded, and let go what waits for its turn.
    EndRun(RunId, RunOutcome, Option<String>),
    /// Have it recorded that Claude Code is gone.
    RecordGone {
        /// Whether it ever asked for a turn.
        had_started: bool,
        /// How, for people.
        detail: String,
    },
    /// End everything, and then the worker.
    End,
}

/// What follows from an event.
pub(crate) fn step(state: State, event: Event) -> (State, Vec<Effect>) {
    if let State::Ending(reason) = state {
        // The first reason stands.
        return (State::Ending(reason), Vec::new());
    }
    match event {
        Event::BeginRun(run) => begin(state, run),
        Event::TurnOpened => turn_opened(state),
        Event::Released(reply) => released(state, reply),
        Event::RunEnded(end) => run_ended(state, end),
        Event::LaunchFailed(message, _) if started(&state) => gone(message, true),
        Event::LaunchFailed(message, missing) => launch_failed(message, missing),
        Event::ClaudeGone(detail) => claude_gone(&state, detail),
        Event::LeaseOver | Event::Stop(StopReason::LeaseExpired) => end(EndReason::LeaseExpired),
        Event::Stop(StopReason::Stopped | StopReason::Replaced) => end(EndReason::Stopped),
        Event::Conflict => end(EndReason::Conflict),
        Event::Terminated => gone("the worker was ended by the system".to_owned(), started(&state)),
    }
}

fn end(reason: EndReason) -> (State, Vec<Effect>) {
    (State::Ending(reason), vec![Effect::End])
}

fn gone(detail: String, had_started: bool) -> (State, Vec<Effect>) {
    let effects = vec![Effect::RecordGone { had_started, detail }, Effect::End];
    (State::Ending(EndReason::ClaudeGone), effects)
}

fn launch_failed(message: String, missing: Missing) -> (State, Vec<Effect>) {
    match missing {
        // A record of Claude Code's end would be the first word, and it can't say that a wall was missing.
        Missing::Wall => end(EndReason::LaunchFailed { message, wall: true }),
        Missing::Program => {
            let effects =
                vec![Effect::RecordGone { had_started: false, detail: message.clone() }, Effect::End];
            (State::Ending(EndReason::LaunchFailed { message, wall: false }), effects)
        }
    }
}

const fn started(state: &State) -> bool {
    !matches!(state, State::Starting(_))
}

fn begin(state: State, run: RunId) -> (State, Vec<Effect>) {
    match state {
        State::Starting(None) => (State::Starting(Some(run)), vec![Effect::Prompt(run)]),
        State::Idle(last) if last != run => (State::Running(run), vec![Effect::Prompt(run)]),
        // It is known already: the supervisor repeats itself after a re-attach.
        State::Starting(Some(_))
        | State::Idle(_)
        | State::Running(_)
        | State::Waiting(_)
        | State::Answered(_)
        | State::Ending(_) => (state, Vec::new()),
    }
}

fn turn_opened(state: State) -> (State, Vec<Effect>) {
    match state {
        State::Starting(Some(run)) | State::Running(run) | State::Waiting(run) | State::Answered(run) => {
            (State::Waiting(run), Vec::new())
        }
        State::Starting(None) | State::Idle(_) | State::Ending(_) => (state, Vec::new()),
    }
}

fn released(state: State, reply: Reply) -> (State, Vec<Effect>) {
    match (state, reply) {
        (State::Waiting(run), Reply::Calls) => (State::Running(run), Vec::new()),
        (State::Waiting(run), Reply::Final) => (State::Answered(run), Vec::new()),
        (
            state @ (State::Starting(_)
            | State::Idle(_)
            | State::Running(_)
            | State::Answered(_)
            | State::Ending(_)),
            Reply::Calls | Reply::Final,
        ) => (state, Vec::new()),
    }
}

fn run_ended(state: State, end: RunEnd) -> (State, Vec<Effect>) {
    match (state, end) {
        (State::Answered(run), RunEnd::Fine) => {
            (State::Idle(run), vec![Effect::EndRun(run, RunOutcome::Finished, None)])
        }
        (State::Starting(_), RunEnd::Error(detail)) => launch_failed(
            format!("Claude Code ended before it asked for anything: {detail}"),
            Missing::Program,
        ),
        (State::Running(run) | State::Waiting(run) | State::Answered(run), RunEnd::Error(detail)) => {
            (State::Idle(run), vec![Effect::EndRun(run, RunOutcome::Failed, Some(detail))])
        }
        (State::Starting(Some(run)) | State::Running(run) | State::Waiting(run), RunEnd::Fine) => {
            let detail = Some("Claude Code ended the run before the final reply".to_owned());
            (State::Idle(run), vec![Effect::EndRun(run, RunOutcome::Failed, detail)])
        }
        (state @ (State::Starting(None) | State::Idle(_) | State::Ending(_)), _) => (state, Vec::new()),
    }
}

fn claude_gone(state: &State, detail: String) -> (State, Vec<Effect>) {
    match state {
        State::Starting(_) => launch_failed(
            format!("Claude Code ended before it asked for anything ({detail})"),
            Missing::Program,
        ),
        State::Idle(_) | State::Running(_) | State::Waiting(_) | State::Answered(_) | State::Ending(_) => {
            gone(detail, true)
        }
    }
}
