//! The one loop of the worker: everything that happens comes in here, and everything that follows is done here.
//!
//! Invariant: what happens next is decided by [`state::step`]; this file only carries it out.
//! Invariant: nothing here waits for the supervisor: what needs it is a record, and its sender waits.

mod ending;
mod launching;

use std::{io, path::PathBuf};

use protocol::{
    id::{InstanceId, RunId, TurnId},
    process_identity::ProcessIdentity,
    recorded::Recorded,
    turn::Turn,
    wire::{
        launch::WorkerLaunch,
        to_supervisor::{ToSupervisor, WorkerRecord, WorkerState},
        to_worker::ToWorker,
    },
};
use tokio::{signal::unix::Signal, sync::mpsc, task::JoinHandle};

use crate::{
    bridge::{Bridge, Delivered},
    claude::{
        child::{self, Claude},
        events::Said,
        version,
    },
    executor::tools::Stop,
    lease::DeadMan,
    link::{
        connection::{Connection, Incoming},
        listener::Proven,
        recorder::Request,
        unacknowledged::Unacknowledged,
    },
    state::{self, Effect, Event, Missing, Reply, State},
};

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
        }
    }

    fn heard(&mut self, said: Said) {
        match said {
            Said::Ready { version } => {
                if self.claude_version.as_deref() == Some(version.as_str()) {
                    return;
                }
                if !version::verified(&version) {
                    tracing::warn!(version, "this version of Claude Code was not tried with this release");
                }
                self.record(WorkerRecord::ClaudeStarted { version: version.clone() });
                self.claude_version = Some(version);
            }
            Said::WithoutTools => self.step(Event::LaunchFailed(
                "Claude Code came up without the gateway's tools".to_owned(),
                Missing::Program,
            )),
            Said::Result(end) => self.step(Event::RunEnded(end)),
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

    fn obey(&mut self, message: ToWorker) {
        match message {
            ToWorker::BeginRun { run_id, prompt } => {
                self.prompt = Some((run_id, prompt));
                self.step(Event::BeginRun(run_id));
                self.prompt = None;
            }
            ToWorker::Ack(ack) => {
                if let Err(error) = self.records.acknowledge(ack) {
                    tracing::error!(%error, "the ledger and this worker disagree");
                    self.step(Event::Conflict);
                }
            }
            ToWorker::Conflict { record, reason } => {
                tracing::error!(?record, reason, "the ledger refused a record");
                self.step(Event::Conflict);
            }
            ToWorker::DeliverReply { reply, ack } => match Recorded::new(reply, ack) {
                Ok(reply) => self.deliver(reply),
                Err(error) => {
                    tracing::error!(%error, "a reply came without its proof");
                    self.step(Event::Conflict);
                }
            },
            ToWorker::Lease { expires_at } => match self.lease.renew(expires_at) {
                Ok(()) => tracing::debug!(%expires_at, "the lease is renewed"),
                Err(error) => {
                    tracing::error!(%error, "renewing the lease's timer failed; the old end stands");
                }
            },
            ToWorker::Stop(reason) => self.step(Event::Stop(reason)),
            ToWorker::Bye => self.detach(),
        }
    }

    fn deliver(&mut self, reply: Recorded<protocol::turn::Reply>) {
        let turn_id = reply.get().turn_id;
        let kind = if reply.get().is_final() { Reply::Final } else { Reply::Calls };
        match self.bridge.deliver(reply) {
            Delivered::Released => {
                tracing::info!(%turn_id, "a reply is released");
                self.released = Some(turn_id);
                self.step(Event::Released(kind));
            }
            Delivered::NotAwaited => tracing::info!(%turn_id, "a reply came that nothing waits for"),
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
