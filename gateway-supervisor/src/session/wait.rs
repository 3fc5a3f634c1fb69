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

/// A place among those who wait. While it is held the lease is kept.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a place.
    ///
    /// # Errors
    /// Where all are taken.
    pub(crate) fn take(handle: &Handle) -> Result<Self, Failure> {
        let taken = handle.waiters().fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            (waiting < WAITERS).then_some(waiting + 1)
        });
        match taken {
            Ok(_) => Ok(Self(Arc::clone(handle.waiters()))),
            Err(_) => Err(refusal::too_many_waiters(handle.session_id)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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

/// Waits.
pub(crate) async fn observe(handle: &Handle, wait: &Wait) {
    if wait.limit.is_zero() {
        return;
    }
    let mut pulse = handle.pulse();
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
        (Until::Settled, _) if now.lease != lease => true,
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
        // A lease that was rotated ends a wait, but not the wait for an end.
        assert!(reached(&pulse(Status::Running), Until::Settled, LeaseId::mint()));
        assert!(!reached(&pulse(Status::Stopping), Until::Stopped, LeaseId::mint()));
    }
}
