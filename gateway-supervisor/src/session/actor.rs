//! One task per session: it owns the state and the link to the worker, and everything that happens to the session goes
//! through it, one thing after the other.
//!
//! Invariant: a record is durable before the state shows it, and the state shows it before anybody is told.
//! Invariant: what a call commits is finished even if its caller is gone.

mod calls;
mod handle;
mod happenings;
mod placing;
mod steps;
mod undoing;

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use protocol::{timestamp::Timestamp, tool::ToolName, wire::to_worker::ToWorker};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    converge::{Told, Wire},
    decision::Command,
    state::State,
    wait::Waiters,
};
use crate::{
    lease::LeaseClock,
    ledger::{
        Durable, LedgerError,
        record::{Entry, Record},
    },
    supervisor::house::House,
    worker::carrier::Happening,
};

pub(crate) use undoing::{Begun, UndoAsk};

pub(crate) use handle::{Answer, Ask, Committed, Handle, Pulse, Shown, TaskGone};

/// Calls and happenings that may wait for a session's task: more than the waiters and the worker's requests together.
const QUEUE: usize = 256;

/// After the ledger refused, it is asked again after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// A worker that was told to end is killed after this time.
const GRACE: Duration = Duration::from_secs(10);

/// The task of a session that has ended goes after this time without a call.
const LINGER: Duration = Duration::from_secs(30);

/// The task.
pub(super) struct Actor {
    house: Arc<House>,
    state: State,
    clock: LeaseClock,
    wire: Wire,
    to_worker: Option<mpsc::UnboundedSender<ToWorker>>,
    /// The launch that this supervisor made itself; one that it only finds in the record was another's.
    launched: Option<u32>,
    kill: CancellationToken,
    kill_at: Option<Instant>,
    happenings: mpsc::Sender<(u32, Happening)>,
    /// What is being done about the session's worktree.
    placing: placing::Work,
    /// What the worker said that the ledger did not take yet.
    stalled: VecDeque<Happening>,
    /// Recoveries that wait until the worker of the expired lease is gone.
    deferred: Vec<(Box<Command>, Answer)>,
    /// Held by the one who carries the open undo.
    undoing: Weak<()>,
    pause_until: Option<Instant>,
    lease_told: Timestamp,
    waiters: Arc<Waiters>,
    pulse: watch::Sender<Pulse>,
    last_call: Instant,
}

/// Starts the task of a session.
pub(crate) fn open(house: Arc<House>, state: State) -> Handle {
    let (asks, inbox) = mpsc::channel(QUEUE);
    let (happenings, happened) = mpsc::channel(QUEUE);
    let length = Duration::from_millis(state.birth.lease_millis);
    let session_id = state.birth.session_id;
    let tools = ToolName::allowed(state.birth.profile, state.birth.subagent_policy).into();
    let waiters = Arc::new(Waiters::default());
    let mut actor = Actor {
        clock: LeaseClock::new(state.lease.expires_at, length),
        pulse: watch::Sender::new(pulse(&state)),
        house,
        state,
        wire: Wire::Down,
        to_worker: None,
        launched: None,
        kill: CancellationToken::new(),
        kill_at: None,
        happenings,
        placing: placing::Work::default(),
        stalled: VecDeque::new(),
        deferred: Vec::new(),
        undoing: Weak::new(),
        pause_until: None,
        lease_told: Timestamp(0),
        waiters: Arc::clone(&waiters),
        last_call: Instant::now(),
    };
    let pulse = actor.pulse.subscribe();
    tokio::spawn(async move { actor.run(inbox, happened).await });
    Handle::new((session_id, tools), asks, pulse, waiters)
}

fn pulse(state: &State) -> Pulse {
    Pulse {
        status: state.status(),
        turn: state.open_turn().map(|turn| turn.turn_id),
        lease: state.lease.lease_id,
        revision: state.revision,
        unsettled: state.launch().is_some() || state.undo.is_some(),
        attached: state.runtime_attached(),
        held_up: false,
    }
}

impl Actor {
    async fn run(&mut self, mut inbox: mpsc::Receiver<Ask>, mut happened: mpsc::Receiver<(u32, Happening)>) {
        self.settle().await;
        let mut look_at = Instant::now() + self.until_look();
        loop {
            tokio::select! {
                ask = inbox.recv() => match ask {
                    Some(Ask::Detach(done)) => return self.detach(done),
                    Some(ask) => self.answer(ask).await,
                    None => return,
                },
                done = self.placing.done() => self.worked(done).await,
                Some((launch, happening)) = happened.recv() => self.happen(launch, happening).await,
                () = tokio::time::sleep_until(look_at) => {
                    self.look().await;
                    look_at = Instant::now() + self.until_look();
                }
            }
            self.settle().await;
            // A look that is due stays due, however fast calls and happenings follow each other.
            look_at = look_at.min(Instant::now() + self.until_look());
            if self.may_go() {
                // What was asked meanwhile is still answered; whoever comes later opens the session again.
                inbox.close();
            }
        }
    }

    /// Brings the world to where the record stands, then shows it.
    async fn settle(&mut self) {
        self.converge().await;
        self.take_deferred().await;
        if self.undo_is_cut_off() && self.pause_until.is_none() {
            self.resolve_undo().await;
        }
        let unreached = self.state.launch().is_some() && !matches!(self.wire, Wire::Up(_));
        let now = Pulse {
            unsettled: unreached || self.undo_is_cut_off(),
            held_up: self.held_up(),
            ..pulse(&self.state)
        };
        self.pulse.send_if_modified(|shown| {
            let changed = *shown != now;
            *shown = now;
            changed
        });
    }

    /// Whether the ledger refused what has to be recorded, so that nothing goes on until it takes it.
    const fn held_up(&self) -> bool {
        self.pause_until.is_some()
    }

    fn may_go(&self) -> bool {
        let waits = self.waiters.taken() > 0;
        self.state.ended() && self.state.undo.is_none() && !waits && self.last_call.elapsed() >= LINGER
    }

    /// The worker goes on alone, until the next supervisor finds it.
    fn detach(&mut self, done: oneshot::Sender<()>) {
        self.placing.leave();
        if let Some(worker) = self.to_worker.take() {
            // A worker that is gone needs no farewell.
            let _ = worker.send(ToWorker::Bye);
        }
        // Whoever asked may have stopped waiting.
        let _ = done.send(());
    }

    fn until_look(&self) -> Duration {
        let now = Instant::now();
        let mut until = self.clock.look(Timestamp::now());
        if self.state.ended() {
            until = LINGER;
        }
        for moment in [self.kill_at, self.pause_until].into_iter().flatten() {
            until = until.min(moment.saturating_duration_since(now));
        }
        // A moment that has come is looked at once, not in a circle.
        until.max(Duration::from_millis(1))
    }

    /// The clock moved on.
    async fn look(&mut self) {
        let now = Instant::now();
        if self.pause_until.is_some_and(|until| until <= now) {
            self.pause_until = None;
            self.take_stalled().await;
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.kill.cancel();
        }
        self.keep_or_end_lease().await;
    }

    /// Records entries, all or none, and only then shows them in the state.
    async fn record(&mut self, entries: Vec<Entry>) -> Result<(), LedgerError> {
        self.append(entries).await.map(drop)
    }

    /// As [`Actor::record`], with the durable records.
    async fn append(&mut self, entries: Vec<Entry>) -> Result<Vec<Durable<Record>>, LedgerError> {
        let at = Timestamp::now();
        let records = entries.into_iter().map(|entry| Record { at, entry }).collect();
        let durable = self.house.ledger.append(self.state.birth.session_id, records).await?;
        for record in &durable {
            self.state.absorb(record);
        }
        self.clock.set_recorded(self.state.lease.expires_at);
        let summary = super::summary::of(&self.state);
        self.house.ledger.describe(self.state.birth.session_id, summary);
        Ok(durable)
    }

    /// As [`Actor::record`], for what has to be recorded whoever asks: where the ledger refuses, it is asked again later.
    async fn must_record(&mut self, entries: Vec<Entry>) -> bool {
        match self.record(entries).await {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(session = %self.state.birth.session_id, %error, "the ledger refused; trying again");
                self.pause_until = Some(Instant::now() + AGAIN);
                false
            }
        }
    }

    fn tell(&mut self, message: ToWorker) {
        if let Wire::Up(told) = &mut self.wire {
            told.note(&message);
            if let Some(worker) = &self.to_worker
                && worker.send(message).is_err()
            {
                tracing::debug!("the worker's connection is down");
            }
        }
    }

    fn up(&mut self, sender: mpsc::UnboundedSender<ToWorker>, told: Told) {
        self.to_worker = Some(sender);
        self.wire = Wire::Up(told);
        let expires_at = self.clock.ends();
        self.lease_told = expires_at;
        self.tell(ToWorker::Lease { expires_at });
    }
}
