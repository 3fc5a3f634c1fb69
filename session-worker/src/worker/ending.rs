//! The worker's end: nothing below it is left, what it did is durable or in the outbox, and the supervisor is told.
//!
//! Invariant: the process tree is gone before anything is said of the end.
//! Invariant: a receipt that is not acknowledged is in the outbox before the process ends.

use std::{io, time::Duration};

use protocol::wire::{
    to_supervisor::{EndReason, ToSupervisor},
    to_worker::ToWorker,
};
use tokio::time::{Instant, timeout};

use super::{Arrival, Incoming, Worker};
use crate::{
    link::{outbox, recorder::Request},
    reaper,
};

/// How long an attached supervisor may take to acknowledge what is left: one sync of its journal, and a busy disk.
const ACKNOWLEDGED: Duration = Duration::from_secs(3);

/// How long a supervisor that is not attached may take to come and hear why a worker ended by itself: it is about to
/// connect, or just restarting.
const HEARD: Duration = Duration::from_secs(10);

/// How long an active sub-session may take to end: its program is killed after some seconds, and two syncs follow.
const DELEGATES: Duration = Duration::from_secs(7);

/// How long what it still does may take once nobody waits for an acknowledgement any more: the end of one system call.
const LET_GO: Duration = Duration::from_secs(1);

/// How long the last words may take to be sent.
const SAID: Duration = Duration::from_secs(1);

impl Worker {
    /// Ends everything.
    ///
    /// # Errors
    /// Where the outbox can't be written.
    pub(super) async fn end(mut self, reason: EndReason) -> io::Result<()> {
        tracing::info!(?reason, "the worker ends");
        self.stop.raise();
        self.bridge.end();
        // Nobody hears what it still says.
        self.arrivals.claude.close();
        if let Some(claude) = self.claude.take() {
            claude.end().await;
        }
        self.end_delegates().await;
        reaper::reap().await;
        self.settle(&reason).await;
        self.listening.abort();
        // It ends by being cut off, and takes its socket's name with it.
        let _ = (&mut self.listening).await;
        let left = self.records.leave();
        let written = outbox::write(&self.directory, &left);
        match &written {
            Ok(()) if left.is_empty() => {}
            Ok(()) => tracing::info!(records = left.len(), "unacknowledged records are in the outbox"),
            Err(error) => tracing::error!(%error, records = left.len(), "writing the outbox failed"),
        }
        if let Some(connection) = self.connection.take() {
            connection.send(ToSupervisor::Ended(reason));
            connection.send(ToSupervisor::Bye);
            if timeout(SAID, connection.finish()).await.is_err() {
                tracing::warn!("the supervisor did not take the last words");
            }
        }
        written
    }

    /// Ends an active sub-session. Where nobody acknowledges what it has recorded, it is let go all the same: nothing more of
    /// it begins, and its end goes into the outbox with what it did.
    async fn end_delegates(&mut self) {
        let Some(delegates) = self.delegates.take() else { return };
        delegates.end_all();
        let mut deadline = Instant::now() + DELEGATES;
        let mut waited = false;
        loop {
            if waited || self.connection.is_none() {
                self.records.let_go();
            }
            tokio::select! {
                () = delegates.all_over() => return,
                arrival = self.next_of_link() => self.settle_with(arrival),
                () = tokio::time::sleep_until(deadline) => {
                    if std::mem::replace(&mut waited, true) {
                        return tracing::warn!("a sub-session did not end in time");
                    }
                    deadline = Instant::now() + LET_GO;
                }
            }
        }
    }

    /// Waits until everything is acknowledged, within reason.
    async fn settle(&mut self, reason: &EndReason) {
        let begun = Instant::now();
        loop {
            // What was done just before the end is to be recorded, or left in the outbox.
            while let Ok(Request { what, done }) = self.arrivals.requests.try_recv() {
                let message = self.records.push(what, Some(done));
                self.tell(message);
            }
            let patience = match (reason, &self.connection) {
                // The ledger acknowledges nothing more.
                (EndReason::Conflict, _) => return,
                (_, Some(_)) => ACKNOWLEDGED,
                (EndReason::LaunchFailed { .. } | EndReason::ClaudeGone, None) if !self.hurried => HEARD,
                // Who said so knows it, or is not there.
                (
                    EndReason::LaunchFailed { .. }
                    | EndReason::ClaudeGone
                    | EndReason::Stopped
                    | EndReason::LeaseExpired,
                    None,
                ) => Duration::ZERO,
            };
            let Some(left) = patience.checked_sub(begun.elapsed()) else { return };
            if self.records.is_empty() && self.connection.is_some() {
                return;
            }
            match timeout(left, self.next_of_link()).await {
                Ok(arrival) => self.settle_with(arrival),
                Err(_) => return,
            }
        }
    }

    async fn next_of_link(&mut self) -> Arrival {
        tokio::select! {
            Some(proven) = self.arrivals.proven.recv() => Arrival::Proven(proven),
            Some(incoming) = self.arrivals.link.recv() => Arrival::Link(incoming),
            Some(request) = self.arrivals.requests.recv() => Arrival::Request(request),
            _ = self.arrivals.terminate.recv() => Arrival::Terminated,
            // Every sender lives as long as the worker.
            else => std::future::pending().await,
        }
    }

    /// Only what makes records durable still counts.
    fn settle_with(&mut self, arrival: Arrival) {
        let counts = match &arrival {
            Arrival::Proven(_) | Arrival::Request(_) => true,
            Arrival::Link(Incoming::Closed(_)) => true,
            Arrival::Link(Incoming::Message(_, message)) => {
                matches!(message, ToWorker::Ack(_) | ToWorker::Bye)
            }
            Arrival::Terminated => true,
            Arrival::Turn(_) | Arrival::Claude(_) | Arrival::LeaseOver | Arrival::Overdue => false,
        };
        if counts {
            self.take(arrival);
        }
    }
}
