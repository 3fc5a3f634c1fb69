//! A worker whose Claude Code follows the prompt's first word: `hang` never asks, `fail` does not come up, `die` asks once and is
//! gone with its first reply, anything else asks, reads, and finishes.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use interprocess::local_socket::{
    GenericFilePath, ListenerOptions, ToFsName as _,
    tokio::{Listener, Stream},
    traits::tokio::Listener as _,
};
use protocol::{
    id::{RunId, TurnId},
    process_identity::ProcessIdentity,
    receipt::{Facts, Receipt},
    recorded::{RecordId, Recorded},
    session::RunOutcome,
    timestamp::Timestamp,
    turn::{Reply, Turn},
    wire::{
        frame,
        hello::{self, Role},
        launch::WorkerLaunch,
        to_supervisor::{EndReason, ToSupervisor, WorkerRecord, WorkerState},
        to_worker::ToWorker,
    },
};
use tokio::{
    process::Command,
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use crate::worker::spawn::{Born, Spawn};

/// Starts such workers and remembers how.
#[derive(Debug, Clone, Default)]
pub(super) struct Fakes(Arc<Mutex<Vec<Started>>>, Arc<AtomicBool>);

/// A worker that was started.
#[derive(Debug, Clone)]
pub(super) struct Started {
    pub(super) identity: ProcessIdentity,
    pub(super) resume: bool,
    /// Runs it began, replies it released, in order.
    pub(super) begun: Arc<Mutex<Vec<RunId>>>,
    pub(super) released: Arc<Mutex<Vec<TurnId>>>,
}

impl Fakes {
    pub(super) fn started(&self) -> Vec<Started> {
        self.0.lock().unwrap().clone()
    }

    /// The next start is recorded and comes to nothing, as where the supervisor ends in its middle.
    pub(super) fn cut_short(&self) {
        self.1.store(true, Ordering::Relaxed);
    }

    /// Kills the newest one, as the system would.
    pub(super) fn kill(&self) {
        let identity = self.started().last().unwrap().identity.clone();
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(identity.pid.cast_signed()),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
    }
}

impl Spawn for Fakes {
    fn spawn(&self, launch: &WorkerLaunch) -> io::Result<Born> {
        if self.1.swap(false, Ordering::Relaxed) {
            return Ok(Born { pid: u32::MAX, exited: Box::pin(std::future::pending()) });
        }
        let mut child = Command::new("sleep").arg("600").kill_on_drop(true).spawn()?;
        let pid = child.id().unwrap();
        let started = Started {
            identity: ProcessIdentity::of(pid)?,
            resume: launch.claude.resume,
            begun: Arc::default(),
            released: Arc::default(),
        };
        self.0.lock().unwrap().push(started.clone());
        let name = launch.socket.as_path().to_fs_name::<GenericFilePath>()?;
        let listener = ListenerOptions::new().name(name).reclaim_name(true).create_tokio()?;
        let dead = CancellationToken::new();
        let (exit, exited) = oneshot::channel();
        let (quit, mut quits) = mpsc::channel::<()>(1);
        let worker = Worker {
            launch: launch.clone(),
            started,
            run: None,
            turns: 0,
            turn: None,
            released: None,
            mood: String::new(),
            unacknowledged: Vec::new(),
            numbered: 0,
            to_supervisor: None,
            quit,
            dead: dead.clone(),
        };
        let death = dead.clone();
        tokio::spawn(async move {
            tokio::select! { _ = child.wait() => {}, _ = quits.recv() => { let _ = child.kill().await; } }
            death.cancel();
            let _ = exit.send("its process ended".to_owned());
        });
        tokio::spawn(async move {
            tokio::select! { () = dead.cancelled() => {}, () = worker.work(listener) => {} }
        });
        Ok(Born { pid, exited: Box::pin(async move { exited.await.unwrap_or_default() }) })
    }
}

struct Worker {
    launch: WorkerLaunch,
    started: Started,
    run: Option<RunId>,
    turns: u32,
    turn: Option<TurnId>,
    released: Option<TurnId>,
    mood: String,
    unacknowledged: Vec<(RecordId, WorkerRecord)>,
    numbered: u64,
    to_supervisor: Option<mpsc::UnboundedSender<ToSupervisor>>,
    quit: mpsc::Sender<()>,
    dead: CancellationToken,
}

impl Worker {
    async fn work(mut self, listener: Listener) {
        let (heard, mut hears) = mpsc::unbounded_channel();
        loop {
            tokio::select! {
                stream = listener.accept() => self.attach(stream.unwrap(), heard.clone()).await,
                Some(message) = hears.recv() => self.obey(message).await,
            }
        }
    }

    async fn attach(&mut self, mut stream: Stream, heard: mpsc::UnboundedSender<ToWorker>) {
        let shaken =
            hello::exchange(&mut stream, Role::Worker, self.launch.session_id, &self.launch.link_key).await;
        if shaken.is_err() {
            return;
        }
        let stream = Arc::new(stream);
        let (sender, mut says) = mpsc::unbounded_channel();
        let (outgoing, quit) = (Arc::clone(&stream), self.quit.clone());
        let speak = async move {
            while let Some(message) = says.recv().await {
                let last = matches!(message, ToSupervisor::Ended(_));
                let sent = frame::send(&mut &*outgoing, &message).await;
                if last {
                    let _ = quit.send(()).await;
                }
                if sent.is_err() {
                    break;
                }
            }
        };
        let hear = async move {
            while let Ok(Some(message)) = frame::receive::<ToWorker, _>(&mut &*stream).await {
                if matches!(message, ToWorker::Bye) || heard.send(message).is_err() {
                    break;
                }
            }
        };
        // The end of a process closes what it had open.
        let (deaf, dumb) = (self.dead.clone(), self.dead.clone());
        tokio::spawn(async move { deaf.run_until_cancelled_owned(hear).await });
        tokio::spawn(async move { dumb.run_until_cancelled_owned(speak).await });
        let state = WorkerState {
            instance: self.launch.instance,
            launch: self.launch.launch,
            identity: self.started.identity.clone(),
            run: self.run,
            released: self.released,
            acknowledged: self.numbered - self.unacknowledged.len() as u64,
            claude_version: None,
        };
        let _ = sender.send(ToSupervisor::Attached(state));
        for (record, what) in &self.unacknowledged {
            let _ = sender.send(ToSupervisor::Record { record: *record, what: what.clone() });
        }
        let fresh = self.to_supervisor.replace(sender).is_none();
        if fresh {
            self.record(WorkerRecord::ClaudeStarted { version: "2.1.247 (Claude Code)".into() });
        }
    }

    fn record(&mut self, what: WorkerRecord) {
        self.numbered += 1;
        let record = RecordId { launch: self.launch.launch, number: self.numbered };
        self.unacknowledged.push((record, what.clone()));
        self.say(ToSupervisor::Record { record, what });
    }

    fn say(&self, message: ToSupervisor) {
        if let Some(sender) = &self.to_supervisor {
            let _ = sender.send(message);
        }
    }

    async fn obey(&mut self, message: ToWorker) {
        match message {
            ToWorker::BeginRun { run_id, prompt } => {
                if self.run == Some(run_id) {
                    return;
                }
                self.started.begun.lock().unwrap().push(run_id);
                (self.run, self.turns, self.turn, self.released) = (Some(run_id), 0, None, None);
                self.mood = prompt.split(' ').next().unwrap_or_default().to_owned();
                match self.mood.as_str() {
                    "hang" => {}
                    "fail" => {
                        let message = "no such program /secret/claude".into();
                        self.end(EndReason::LaunchFailed { message, wall: false }).await;
                    }
                    _ => self.ask(),
                }
            }
            ToWorker::DeliverReply { reply, ack } => {
                // The proof must be one of exactly this reply.
                let reply = Recorded::new(reply, ack).unwrap().into_inner();
                self.release(&reply).await;
            }
            ToWorker::Ack(ack) => self.unacknowledged.retain(|(record, _)| *record != ack.record()),
            ToWorker::Stop(_) => self.end(EndReason::Stopped).await,
            ToWorker::Conflict { reason, .. } => panic!("{reason}"),
            ToWorker::Lease { .. } | ToWorker::Bye => {}
        }
    }

    fn ask(&mut self) {
        let answers = self.turn;
        self.turns += 1;
        self.turn = Some(TurnId::mint());
        let turn = Turn {
            turn_id: self.turn.unwrap(),
            run_id: self.run.unwrap(),
            sequence: self.turns,
            opened_at: Timestamp::now(),
            answers,
        };
        self.record(WorkerRecord::TurnOpened(turn));
    }

    async fn release(&mut self, reply: &Reply) {
        if self.turn != Some(reply.turn_id) || self.released == Some(reply.turn_id) {
            return;
        }
        self.released = self.turn;
        self.started.released.lock().unwrap().push(reply.turn_id);
        if self.mood == "die" {
            let _ = self.quit.send(()).await;
            return;
        }
        for action in &reply.actions {
            let (action_id, now) = (action.action_id, Timestamp::now());
            let content = format!("read {}", action.input.text());
            let (error, is_error, facts) = (None, false, Facts::None);
            let receipt =
                Receipt { action_id, began_at: now, ended_at: now, error, is_error, content, facts };
            self.record(WorkerRecord::Receipt(receipt));
        }
        if reply.is_final() {
            let (run_id, outcome) = (self.run.unwrap(), RunOutcome::Finished);
            self.record(WorkerRecord::RunEnded { run_id, outcome, detail: None });
        } else {
            self.ask();
        }
    }

    async fn end(&self, reason: EndReason) {
        // The one who sends its last words ends it.
        match &self.to_supervisor {
            Some(sender) if sender.send(ToSupervisor::Ended(reason)).is_ok() => {}
            Some(_) | None => drop(self.quit.send(()).await),
        }
    }
}
