//! The one loop of the worker: everything that happens comes in here, and everything that follows is done here.
//!
//! Invariant: what happens next is decided by [`state::step`]; this file only carries it out.
//! Invariant: nothing here waits for the supervisor: what needs it is a record, and its sender waits.

mod coming_up;
mod ending;
mod launching;
mod obeying;

use std::{io, path::PathBuf};

use protocol::{
    claude_code,
    id::{InstanceId, RunId, TurnId},
    process_identity::ProcessIdentity,
    turn::Turn,
    wire::{
        launch::WorkerLaunch,
        to_supervisor::{ToSupervisor, WorkerRecord, WorkerState},
    },
};
use tokio::{signal::unix::Signal, sync::mpsc, task::JoinHandle};

use crate::{
    bridge::Bridge,
    claude::{
        child::{self, Claude},
        events::Said,
    },
    executor::tools::Stop,
    lease::DeadMan,
    link::{
        connection::{Connection, Incoming},
        listener::Proven,
        recorder::Request,
        unacknowledged::Unacknowledged,
    },
    state::{self, Effect, Event, Missing, State},
    subagent::Delegates,
};
use coming_up::ComingUp;

/// The worker.
#[derive(Debug)]
pub(crate) struct Worker {
    instance: InstanceId,
    launch: u32,
    identity: ProcessIdentity,
    directory: PathBuf,
    state: State,
    /// The run that waits for Claude Code to take its prompt.
    prompt: Option<(RunId, String)>,
    run: Option<RunId>,
    released: Option<TurnId>,
    claude_version: Option<String>,
    records: Unacknowledged,
    connection: Option<Connection>,
    connections: u64,
    claude: Option<Claude>,
    coming_up: ComingUp,
    /// None where the session delegates nothing.
    delegates: Option<Delegates>,
    bridge: Bridge,
    lease: DeadMan,
    arrivals: Arrivals,
    incoming: mpsc::Sender<Incoming>,
    /// Raised at the end, for work that takes long.
    stop: Stop,
    /// The system ends this process and will not wait.
    hurried: bool,
    listening: JoinHandle<()>,
}

/// Everything that comes in.
#[derive(Debug)]
struct Arrivals {
    proven: mpsc::Receiver<Proven>,
    link: mpsc::Receiver<Incoming>,
    requests: mpsc::Receiver<Request>,
    turns: mpsc::UnboundedReceiver<Turn>,
    claude: mpsc::Receiver<child::Event>,
    terminate: Signal,
}

/// One thing that came in.
#[derive(Debug)]
enum Arrival {
    Proven(Proven),
    Link(Incoming),
    Request(Request),
    Turn(Turn),
    Claude(child::Event),
    LeaseOver,
    Overdue,
    Terminated,
}

/// Runs a session's worker until its end.
///
/// # Errors
/// Where it can't even listen: then nobody could be told anything else.
pub(crate) async fn run(launch: WorkerLaunch) -> io::Result<()> {
    let mut worker = launching::launch(&launch)?;
    loop {
        let arrival = worker.next().await;
        worker.take(arrival);
        if let State::Ending(reason) = &worker.state {
            let reason = reason.clone();
            return worker.end(reason).await;
        }
    }
}

impl Worker {
    async fn next(&mut self) -> Arrival {
        let Arrivals { proven, link, requests, turns, claude, terminate } = &mut self.arrivals;
        // Each of these can be dropped half-way without losing anything.
        tokio::select! {
            Some(proven) = proven.recv() => Arrival::Proven(proven),
            Some(incoming) = link.recv() => Arrival::Link(incoming),
            Some(request) = requests.recv() => Arrival::Request(request),
            Some(turn) = turns.recv() => Arrival::Turn(turn),
            Some(event) = claude.recv() => Arrival::Claude(event),
            _ = terminate.recv() => Arrival::Terminated,
            () = self.lease.expired() => Arrival::LeaseOver,
            () = self.coming_up.over(), if matches!(self.state, State::Starting(_)) => Arrival::Overdue,
        }
    }

    fn take(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Proven(proven) => self.attach(proven),
            Arrival::Link(Incoming::Message(number, message)) if self.is_current(number) => {
                self.obey(message);
            }
            Arrival::Link(Incoming::Closed(number)) if self.is_current(number) => self.detach(),
            // An older connection still speaks; it was replaced.
            Arrival::Link(Incoming::Message(..) | Incoming::Closed(_)) => {}
            Arrival::Request(Request { what, done }) => {
                let message = self.records.push(what, Some(done));
                self.tell(message);
            }
            Arrival::Turn(turn) => {
                self.record(WorkerRecord::TurnOpened(turn));
                self.step(Event::TurnOpened);
            }
            Arrival::Claude(child::Event::Said(said)) => self.heard(said),
            Arrival::Claude(child::Event::Gone(detail)) => self.step(Event::ClaudeGone(detail)),
            Arrival::LeaseOver => self.step(Event::LeaseOver),
            Arrival::Overdue => self.step(Event::LaunchFailed(ComingUp::failure(), Missing::Program)),
            Arrival::Terminated => {
                self.hurried = true;
                self.step(Event::Terminated);
            }
        }
    }

    fn step(&mut self, event: Event) {
        let (state, effects) = state::step(self.state.clone(), event);
        self.state = state;
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Prompt(run_id) => self.begin(run_id),
            Effect::EndRun(run_id, outcome, detail) => {
                self.bridge.end();
                tracing::info!(%run_id, outcome = outcome.name(), "the run is over");
                self.record(WorkerRecord::RunEnded { run_id, outcome, detail });
            }
            Effect::RecordGone { had_started, detail } => {
                self.record(WorkerRecord::ClaudeGone { had_started, detail });
            }
            // The loop sees the state.
            Effect::End => {}
        }
    }

    fn begin(&mut self, run_id: RunId) {
        let Some((waiting, text)) = self.prompt.take().filter(|(waiting, _)| *waiting == run_id) else {
            return;
        };
        tracing::info!(run_id = %waiting, "a run begins");
        self.run = Some(run_id);
        self.released = None;
        self.bridge.begin(run_id);
        if let Some(claude) = &self.claude {
            claude.prompt(text);
            self.coming_up.prompted();
        }
    }

    fn heard(&mut self, said: Said) {
        match said {
            Said::Ready { version } => {
                if self.claude_version.as_deref() == Some(version.as_str()) {
                    return;
                }
                if !claude_code::verified(&version) {
                    tracing::warn!(version, "this version of Claude Code was not tried with this release");
                }
                self.record(WorkerRecord::ClaudeStarted { version: version.clone() });
                self.claude_version = Some(version);
            }
            Said::WithoutTools => self.step(Event::LaunchFailed(
                "Claude Code came up without the gateway's tools".to_owned(),
                Missing::Program,
            )),
            Said::Result { end, .. } => self.step(Event::RunEnded(end)),
        }
    }

    fn is_current(&self, number: u64) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.number() == number)
    }

    fn attach(&mut self, proven: Proven) {
        self.connections += 1;
        let connection = Connection::serve(proven.stream, self.connections, self.incoming.clone());
        connection.send(ToSupervisor::Attached(self.standing()));
        for message in self.records.again() {
            connection.send(message);
        }
        tracing::info!(connection = self.connections, "a supervisor is attached");
        self.connection = Some(connection);
    }

    fn detach(&mut self) {
        tracing::info!("the supervisor is gone; what needs it waits");
        self.connection = None;
    }

    fn standing(&self) -> WorkerState {
        WorkerState {
            instance: self.instance,
            launch: self.launch,
            identity: self.identity.clone(),
            run: self.run,
            released: self.released,
            acknowledged: self.records.acknowledged(),
            claude_version: self.claude_version.clone(),
        }
    }

    fn record(&mut self, what: WorkerRecord) {
        let message = self.records.push(what, None);
        self.tell(message);
    }

    fn tell(&self, message: ToSupervisor) {
        if let Some(connection) = &self.connection {
            connection.send(message);
        }
    }
}
