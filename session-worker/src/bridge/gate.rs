//! The gate between a recorded reply and Claude Code.
//!
//! Invariant: only a `Recorded<Reply>` opens it, and only once: every connection that waits at it gets the same reply.
//! Invariant: the reply's actions are callable before anybody behind the gate can call one.

use std::sync::Arc;

use protocol::{recorded::Recorded, turn::Reply};
use tokio::sync::watch;

use crate::executor::authorize::Authority;

/// One turn's gate. A clone is the same gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<watch::Sender<State>>);

#[derive(Debug, Clone)]
enum State {
    Shut,
    Open(Arc<Recorded<Reply>>),
    /// The run is over; nothing will come through.
    Abandoned,
}

/// What came of bringing a reply to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Opened {
    /// This reply opened it.
    Now,
    /// It was not shut any more.
    Before,
}

impl Gate {
    /// A gate that is shut.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(State::Shut)))
    }

    /// Lets a recorded reply through.
    pub(crate) fn open(&self, authority: &Authority, reply: Recorded<Reply>) -> Opened {
        let mut reply = Some(reply);
        let opened = self.0.send_if_modified(|state| match (&*state, reply.take()) {
            (State::Shut, Some(reply)) => {
                authority.open(&reply);
                *state = State::Open(Arc::new(reply));
                true
            }
            (State::Shut | State::Open(_) | State::Abandoned, _) => false,
        });
        if opened { Opened::Now } else { Opened::Before }
    }

    /// Says that nothing will come.
    pub(crate) fn abandon(&self) {
        self.0.send_if_modified(|state| match state {
            State::Shut => {
                *state = State::Abandoned;
                true
            }
            State::Open(_) | State::Abandoned => false,
        });
    }

    /// Whether a reply went through.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.0.borrow(), State::Open(_))
    }

    /// Waits for the reply; none where the run ended without one.
    pub(crate) async fn pass(&self) -> Option<Arc<Recorded<Reply>>> {
        let mut changes = self.0.subscribe();
        let state = changes.wait_for(|state| !matches!(state, State::Shut)).await.ok()?;
        match &*state {
            State::Open(reply) => Some(Arc::clone(reply)),
            State::Shut | State::Abandoned => None,
        }
    }
}
