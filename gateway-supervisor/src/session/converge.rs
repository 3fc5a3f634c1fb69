//! What is to be done next so that the world comes to match the record.
//!
//! Invariant: pure and total. It looks at the state and at what the worker was told, never at how they came about: so a
//! restart at any point goes on where the record stands.

use protocol::{
    id::{RunId, TurnId},
    wire::to_worker::{StopReason, ToWorker},
};

use super::state::{Claude, Life, Process, Run, State};

/// What the present connection's worker knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The run it carries.
    pub(crate) run: Option<RunId>,
    /// The last turn whose reply it has.
    pub(crate) replied: Option<TurnId>,
    /// That it must end.
    pub(crate) stop: bool,
}

/// The connection to the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wire {
    /// There is none, and nobody is making one.
    Down,
    /// It is being made, or the worker is being ended.
    Busy,
    /// It is up.
    Up(Told),
}

/// What is being done about a worktree, which is made after its session is born.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placing {
    /// Nothing.
    Rests,
    /// It is being made.
    Making,
    /// What was made of it is being cleared, or its making is being ended.
    Clearing,
    /// What was made of it is cleared, as far as that is the gateway's own.
    Cleared,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing is to be done before something happens.
    Rest,
    /// Make the worktree that the session works in, and record it.
    MakeWorkspace,
    /// End the making of the worktree.
    LeaveWorkspace,
    /// Clear what was made of the worktree.
    ClearWorkspace,
    /// Record that a worker is about to be started, then start it.
    Start,
    /// Find the worker that may exist, or find out that it is gone.
    Find,
    /// Tell the worker.
    Tell(ToWorker),
    /// Record that the run is over because nothing carries it any more.
    CloseRun,
    /// Clear up, then record the end.
    End,
}

/// The next step for a session in this state with this connection.
pub(crate) fn next(state: &State, wire: &Wire, placing: Placing) -> Step {
    match (&state.life, &state.process) {
        (Life::Stopped(_), _) => Step::Rest,
        (life, Process::None) => placed(state, life, placing),
        (life, Process::Starting(_) | Process::Attached { .. }) => match wire {
            Wire::Down => Step::Find,
            Wire::Busy => Step::Rest,
            Wire::Up(told) => match ending(life, &state.process) {
                Some(_) if told.stop => Step::Rest,
                Some(reason) => Step::Tell(ToWorker::Stop(reason)),
                None => work(state.open_run(), told),
            },
        },
    }
}

/// The next step where there is no worker: only then a worktree is made or cleared.
fn placed(state: &State, life: &Life, placing: Placing) -> Step {
    let live = matches!(life, Life::Live);
    match placing {
        Placing::Making if live && state.open_run().is_some() => return Step::Rest,
        Placing::Making => return Step::LeaveWorkspace,
        Placing::Clearing => return Step::Rest,
        Placing::Rests | Placing::Cleared => {}
    }
    match (life, state.open_run()) {
        (Life::Live, Some(run)) if run.launch.is_none() && !state.placed => Step::MakeWorkspace,
        (Life::Live, Some(run)) if run.launch.is_none() => Step::Start,
        (Life::Live | Life::LeaseExpired | Life::Stopping(_), Some(_)) => Step::CloseRun,
        (Life::Live | Life::LeaseExpired, None) => Step::Rest,
        (Life::Stopping(_), None) if !state.placed && placing == Placing::Rests => Step::ClearWorkspace,
        (Life::Stopping(_), None) => Step::End,
        (Life::Stopped(_), _) => Step::Rest,
    }
}

/// Why the worker must end, where it must.
const fn ending(life: &Life, process: &Process) -> Option<StopReason> {
    match (life, process) {
        (Life::Stopping(_) | Life::Stopped(_), _) => Some(StopReason::Stopped),
        (Life::LeaseExpired, _) => Some(StopReason::LeaseExpired),
        // It ends by itself; saying so once more makes sure of it.
        (Life::Live, Process::Attached { claude: Claude::Gone, .. }) => Some(StopReason::Replaced),
        (Life::Live, Process::Attached { .. } | Process::Starting(_) | Process::None) => None,
    }
}

fn work(run: Option<&Run>, told: &Told) -> Step {
    let Some(run) = run else { return Step::Rest };
    if told.run != Some(run.run_id) {
        return Step::Tell(ToWorker::BeginRun { run_id: run.run_id, prompt: run.prompt.to_string() });
    }
    let undelivered =
        run.answer.as_ref().filter(|a| run.open.is_none() && told.replied != Some(a.reply.turn_id));
    match undelivered.and_then(|answer| answer.ack.as_ref().map(|ack| (answer, ack))) {
        Some((answer, ack)) => {
            Step::Tell(ToWorker::DeliverReply { reply: (*answer.reply).clone(), ack: ack.clone() })
        }
        None => Step::Rest,
    }
}

impl Told {
    /// Takes down that the worker was told.
    pub(crate) fn note(&mut self, message: &ToWorker) {
        match message {
            ToWorker::BeginRun { run_id, .. } => self.run = Some(*run_id),
            ToWorker::DeliverReply { reply, .. } => self.replied = Some(reply.turn_id),
            ToWorker::Stop(_) | ToWorker::Conflict { .. } => self.stop = true,
            ToWorker::Ack(_) | ToWorker::Lease { .. } | ToWorker::Bye => {}
        }
    }
}
