//! What happens to the worker.

use protocol::{
    crash,
    failure::ErrorCode,
    recorded::RecordId,
    subagent::SubsessionEvent,
    wire::{
        outbox,
        to_supervisor::{EndReason, ToSupervisor, WorkerRecord, WorkerState},
        to_worker::ToWorker,
    },
};
use tokio::{sync::mpsc, time::Instant};

use super::{AGAIN, Actor};
use crate::{
    boundary,
    ledger::{LedgerError, record::Entry},
    recovery::observe,
    session::{
        converge::{Told, Wire},
        state::{Accepted, Findings, Life, Process},
    },
    supervisor::clear,
    worker::carrier::{self, Happening},
};

/// Longest public text about a failed start.
const REASON_BYTES: usize = 500;

impl Actor {
    pub(super) async fn happen(&mut self, launch: u32, happening: Happening) {
        if self.state.launch().is_none_or(|current| current.number != launch) {
            return;
        }
        if self.stalled.is_empty() {
            self.happen_now(happening).await;
        } else {
            self.stalled.push_back(happening);
        }
    }

    /// Tries again what the ledger did not take.
    pub(super) async fn take_stalled(&mut self) {
        for happening in std::mem::take(&mut self.stalled) {
            if self.stalled.is_empty() {
                self.happen_now(happening).await;
            } else {
                self.stalled.push_back(happening);
            }
        }
    }

    async fn happen_now(&mut self, happening: Happening) {
        let done = match &happening {
            Happening::Up { state, sender } => self.attach(state, sender).await,
            Happening::Said(ToSupervisor::Record { record, what }) => self.take_record(*record, what).await,
            Happening::Said(ToSupervisor::Ended(reason)) => self.take_end(reason).await,
            // Attached is the first message, and the link has taken it; a bye is followed by the connection's end.
            Happening::Said(ToSupervisor::Attached(_) | ToSupervisor::Bye) => Ok(()),
            Happening::Down => {
                self.to_worker = None;
                self.wire = Wire::Busy;
                Ok(())
            }
            Happening::Gone(detail) => self.bury(detail).await,
        };
        if let Err(error) = done {
            tracing::error!(session = %self.state.birth.session_id, %error, "the ledger refused; trying again");
            self.stalled.push_front(happening);
            self.pause_until = Some(Instant::now() + AGAIN);
        }
    }

    async fn attach(
        &mut self,
        worker: &WorkerState,
        sender: &mpsc::UnboundedSender<ToWorker>,
    ) -> Result<(), LedgerError> {
        if matches!(self.state.process, Process::Starting(_)) {
            let identity = worker.identity.clone();
            self.record(vec![Entry::WorkerAttached { launch: worker.launch, identity }]).await?;
        }
        self.up(sender.clone(), Told { run: worker.run, replied: worker.released, stop: false });
        Ok(())
    }

    async fn take_record(&mut self, request: RecordId, what: &WorkerRecord) -> Result<(), LedgerError> {
        match self.state.accept(request, what.clone()) {
            Accepted::Again(ack) => self.tell(ToWorker::Ack(ack)),
            Accepted::Append(entry) => {
                let mut entries = vec![*entry];
                if let WorkerRecord::ClaudeGone { had_started: false, detail } = what {
                    entries.extend(self.state.fail_launch(ErrorCode::LaunchFailed, came_down(detail)));
                }
                self.record(entries).await?;
                if let Some(ack) = self.state.acks.get(&request.number) {
                    let ack = ack.clone();
                    self.tell(ToWorker::Ack(ack));
                    // The worker waits for nothing else: it goes out on this thread before anybody looks at the new state,
                    // instead of from another one that is woken for it.
                    tokio::task::yield_now().await;
                }
            }
            Accepted::Conflict(reason) => {
                tracing::error!(session = %self.state.birth.session_id, ?request, reason, "a worker's request contradicts the record");
                self.tell(ToWorker::Conflict { record: request, reason });
                self.kill_at = Some(Instant::now() + super::GRACE);
            }
        }
        Ok(())
    }

    async fn take_end(&mut self, reason: &EndReason) -> Result<(), LedgerError> {
        self.kill_at.get_or_insert(Instant::now() + super::GRACE);
        match reason {
            EndReason::LaunchFailed { message, wall } => {
                let code = if *wall { ErrorCode::SandboxUnavailable } else { ErrorCode::LaunchFailed };
                let entries = self.state.fail_launch(code, public(message));
                self.record(entries).await
            }
            EndReason::Stopped | EndReason::LeaseExpired | EndReason::ClaudeGone | EndReason::Conflict => {
                Ok(())
            }
        }
    }

    /// The worker is gone: what it left is taken in, what was interrupted is resolved, and its run is over.
    async fn bury(&mut self, detail: &str) -> Result<(), LedgerError> {
        self.to_worker = None;
        self.take_outbox().await?;
        let findings = self.findings().await;
        let never_up = matches!(self.state.process, Process::Starting(_));
        // A start that a supervisor's own end cut short is no failure: the run waits for another worker.
        let cut_short = never_up
            && self.state.life == Life::Live
            && self.state.launch().is_some_and(|launch| self.launched != Some(launch.number));
        let mut entries = if never_up && !cut_short {
            self.state.fail_launch(
                ErrorCode::LaunchFailed,
                format!("the session's worker did not come up: {}", public(detail)),
            )
        } else {
            Vec::new()
        };
        let closed = !entries.is_empty();
        entries.extend(self.state.lose_worker(detail, &findings).into_iter().filter(|entry| {
            // A start that failed has ended its run already; one that was cut short has not begun it.
            !(closed || cut_short) || matches!(entry, Entry::WorkerGone { .. })
        }));
        // Before the record that nothing is left of it: nobody looks again after that.
        self.clear_worker(self.state.launch().cloned()).await;
        crash::point("supervisor-before-burial");
        self.record(entries).await?;
        self.wire = Wire::Down;
        self.kill_at = None;
        Ok(())
    }

    pub(super) async fn findings(&self) -> Findings {
        let (workspace, in_doubt, left) =
            (self.state.birth.workspace.clone(), self.state.in_doubt(), self.state.left_behind());
        if in_doubt.is_empty() && left.is_empty() {
            return Findings::new();
        }
        // Where looking fails, nothing is known of any: that is what an empty finding says.
        let looked = tokio::task::spawn_blocking(move || {
            let mut findings = observe::findings(&workspace, &in_doubt);
            clear::after_writes(&workspace, &left, &mut findings);
            findings
        });
        looked.await.unwrap_or_default()
    }

    async fn take_outbox(&mut self) -> Result<(), LedgerError> {
        let marks = self.house.marks(self.state.birth.session_id);
        let read = tokio::task::spawn_blocking(move || carrier::outbox(&marks)).await;
        let records = match read {
            Ok(Ok(Some(bytes))) => outbox::decode(&bytes),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => {
                tracing::error!(%error, "the outbox of a worker can't be read; what it holds counts as not recorded");
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        let records = records.unwrap_or_else(|error| {
            tracing::error!(%error, "the outbox of a worker is damaged; what it holds counts as not recorded");
            Vec::new()
        });
        for (request, what) in records {
            if let WorkerRecord::Subsession { subsession_id, event: SubsessionEvent::Ended(_) } = &what {
                // The worker is gone: what its last action did is known now, before its end.
                let findings = self.findings().await;
                let resolved = self.state.resolve_subsession(*subsession_id, &findings);
                if !resolved.is_empty() {
                    self.record(resolved).await?;
                }
            }
            match self.state.accept(request, what) {
                Accepted::Append(entry) => self.record(vec![*entry]).await?,
                Accepted::Again(_) => {}
                Accepted::Conflict(reason) => {
                    tracing::warn!(
                        ?request,
                        reason,
                        "an outbox holds a record that does not fit; it is left out"
                    );
                }
            }
        }
        Ok(())
    }
}

fn came_down(detail: &str) -> String {
    format!("{}; gatewayctl doctor checks Claude Code and says how to mend it", public(detail))
}

/// What may be shown of a text that comes from a process: no paths, one line, bounded.
pub(super) fn public(detail: &str) -> String {
    let words = detail.split_whitespace().map(|word| if word.contains('/') { "<path>" } else { word });
    let mut text = words.collect::<Vec<_>>().join(" ");
    text.truncate(boundary::floor(&text, REASON_BYTES));
    text.retain(|c| !c.is_control());
    text
}
