//! Waiting for a session: until there is something to answer, or waiting can't help.
//!
//! Invariant: a wait ends on change, deadline, a caller who is gone, a lease that was rotated, or the gateway's going down;
//! what ends is the wait, never the work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use protocol::{failure::Failure, id::LeaseId, limits::WAITERS, session::Status};
use tokio_util::sync::CancellationToken;

use super::{
    actor::{Handle, Pulse},
    refusal,
};

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Something to answer, or nothing more to wait for.
    Settled,
    /// The end.
    Stopped,
}

/// How many calls are about to wait for a session, and how many of them do.
///
/// Invariant: only a call that was admitted and has something to wait for keeps the lease. What a call asks for before its
/// lease or token was looked at keeps nothing.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    places: AtomicUsize,
    keepers: AtomicUsize,
}

impl Waiters {
    /// How many places are taken.
    pub(crate) fn taken(&self) -> usize {
        self.places.load(Ordering::Relaxed)
    }

    /// Whether a call waits that keeps the lease.
    pub(crate) fn keep_lease(&self) -> bool {
        self.keepers.load(Ordering::Relaxed) > 0
    }
}

/// A place among those who may wait.
#[derive(Debug)]
pub(crate) struct Place(Arc<Waiters>);

impl Place {
    /// Takes a place.
    ///
    /// # Errors
    /// Where all are taken.
    pub(crate) fn take(handle: &Handle) -> Result<Self, Failure> {
        let waiters = handle.waiters();
        let taken = waiters.places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            (waiting < WAITERS).then_some(waiting + 1)
        });
        match taken {
            Ok(_) => Ok(Self(Arc::clone(waiters))),
            Err(_) => Err(refusal::too_many_waiters(handle.session_id)),
        }
    }

    fn keep_lease(&self) -> Keeping<'_> {
        self.0.keepers.fetch_add(1, Ordering::Relaxed);
        Keeping(&self.0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.places.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call that waits and keeps the lease meanwhile.
struct Keeping<'a>(&'a Waiters);

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        self.0.keepers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A wait: for what, with which lease, and why it may end early.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    /// What for.
    pub(crate) until: Until,
    /// Its caller's lease.
    pub(crate) lease: LeaseId,
    /// How long at most.
    pub(crate) limit: Duration,
    /// The caller is gone.
    pub(crate) gone: CancellationToken,
    /// The gateway is going down.
    pub(crate) drain: CancellationToken,
}

/// Waits, after the call was admitted; with a place it keeps the lease for as long as there is something to wait for.
pub(crate) async fn observe(handle: &Handle, wait: &Wait, place: Option<Place>) {
    let mut pulse = handle.pulse();
    if wait.limit.is_zero() || reached(&pulse.borrow(), wait.until, wait.lease) {
        return;
    }
    let _keeping = place.as_ref().map(Place::keep_lease);
    tokio::select! {
        // An error means that the session's task is gone, so nothing changes any more.
        _ = pulse.wait_for(|now| reached(now, wait.until, wait.lease)) => {}
        () = tokio::time::sleep(wait.limit) => {}
        () = wait.gone.cancelled() => {}
        () = wait.drain.cancelled() => {}
    }
}

fn reached(now: &Pulse, until: Until, lease: LeaseId) -> bool {
    match (until, now.status) {
        (_, Status::Stopped) => true,
        (Until::Stopped, _) => false,
        (Until::Settled, _) if now.lease != lease || now.held_up => true,
        (Until::Settled, Status::WaitingForGpt) => now.turn.is_some(),
        (Until::Settled, Status::Starting | Status::Running | Status::Stopping) => false,
        (Until::Settled, Status::Idle | Status::LeaseExpired | Status::Failed | Status::RecoveryRequired) => {
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::id::TurnId;

    use super::*;

    #[test]
    fn waiting_ends_where_it_can_not_help() {
        let lease = LeaseId::mint();
        let pulse = |status| Pulse {
            status,
            turn: (status == Status::WaitingForGpt).then(TurnId::mint),
            lease,
            revision: 1,
            unsettled: false,
            attached: true,
            held_up: false,
        };
        for (status, settled, stopped) in [
            (Status::Starting, false, false),
            (Status::Running, false, false),
            (Status::Stopping, false, false),
            (Status::WaitingForGpt, true, false),
            (Status::Idle, true, false),
            (Status::LeaseExpired, true, false),
            (Status::Failed, true, false),
            (Status::RecoveryRequired, true, false),
            (Status::Stopped, true, true),
        ] {
            assert_eq!(reached(&pulse(status), Until::Settled, lease), settled, "{status:?}");
            assert_eq!(reached(&pulse(status), Until::Stopped, lease), stopped, "{status:?}");
        }
        let held_up = Pulse { held_up: true, ..pulse(Status::Running) };
        assert!(reached(&held_up, Until::Settled, lease), "the owner has to hear of it");
        // A lease that was rotated ends a wait, but not the wait for an end.
        assert!(reached(&pulse(Status::Running), Until::Settled, LeaseId::mint()));
        assert!(!reached(&pulse(Status::Stopping), Until::Stopped, LeaseId::mint()));
    }
}
