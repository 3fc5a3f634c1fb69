//! Makes things durable: sends a record to the worker's loop and waits for the supervisor's acknowledgement.
//!
//! Invariant: a value comes back as [`Recorded`] only with the acknowledgement of exactly this value.
//! Invariant: waiting outlasts a supervisor that is away: the loop sends the record again when it is back.

use protocol::{
    action::{Action, Prepared},
    id::SubsessionId,
    limits::UNACKNOWLEDGED,
    receipt::Receipt,
    recorded::{Ack, Recordable, Recorded},
    subagent::{SubsessionEnd, SubsessionEvent},
    wire::to_supervisor::WorkerRecord,
};
use tokio::sync::{mpsc, oneshot};

/// The worker ends: what was to be recorded was not acknowledged. A receipt is kept for the supervisor in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session's worker ends; what was done is kept for the supervisor's return")]
pub(crate) struct NotRecorded;

/// One thing to record, and who waits for it.
#[derive(Debug)]
pub(crate) struct Request {
    /// What to record.
    pub(crate) what: WorkerRecord,
    /// Gets the acknowledgement; dropped where the worker ends without one.
    pub(crate) done: oneshot::Sender<Ack>,
}

/// Asks the loop to record things. A cheap handle.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    requests: mpsc::Sender<Request>,
    /// Whose actions it records; none for the session's own.
    subsession: Option<SubsessionId>,
}

impl Recorder {
    /// A recorder and the end where the loop takes its requests.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (requests, taken) = mpsc::channel(UNACKNOWLEDGED);
        (Self { requests, subsession: None }, taken)
    }

    /// Makes a receipt durable.
    ///
    /// # Errors
    /// Where the worker ends first; the receipt is then in the outbox.
    pub(crate) async fn receipt(&self, receipt: Receipt) -> Result<Recorded<Receipt>, NotRecorded> {
        self.record(receipt, |receipt, of| match of {
            None => WorkerRecord::Receipt(receipt),
            Some(id) => happened(id, SubsessionEvent::Receipt(receipt)),
        })
        .await
    }

    /// Makes a prepared action durable, so that its effect may follow.
    ///
    /// # Errors
    /// Where the worker ends first; the effect must then not happen.
    pub(crate) async fn prepared(&self, prepared: Prepared) -> Result<Recorded<Prepared>, NotRecorded> {
        self.record(prepared, |prepared, of| match of {
            None => WorkerRecord::Prepared(prepared),
            Some(id) => happened(id, SubsessionEvent::Prepared(prepared)),
        })
        .await
    }

    /// The same, for the actions of a sub-session.
    pub(crate) fn of(&self, id: SubsessionId) -> Self {
        Self { requests: self.requests.clone(), subsession: Some(id) }
    }

    /// Makes a call of a sub-session durable, so that it may be carried out.
    ///
    /// # Errors
    /// Where the worker ends first; the call must then not be carried out.
    pub(crate) async fn called(&self, action: Action) -> Result<Recorded<Action>, NotRecorded> {
        let id = self.subsession.ok_or(NotRecorded)?;
        self.record(action, move |action, _| happened(id, SubsessionEvent::Called(action))).await
    }

    /// Makes the end of a sub-session durable.
    ///
    /// # Errors
    /// Where the worker ends first; the supervisor finds the loss itself then.
    pub(crate) async fn ended(&self, end: SubsessionEnd) -> Result<Recorded<SubsessionEnd>, NotRecorded> {
        let id = self.subsession.ok_or(NotRecorded)?;
        self.record(end, move |end, _| happened(id, SubsessionEvent::Ended(end))).await
    }

    async fn record<T: Recordable + Clone>(
        &self,
        value: T,
        wrap: impl FnOnce(T, Option<SubsessionId>) -> WorkerRecord,
    ) -> Result<Recorded<T>, NotRecorded> {
        let (done, acknowledged) = oneshot::channel();
        let request = Request { what: wrap(value.clone(), self.subsession), done };
        self.requests.send(request).await.map_err(|_| NotRecorded)?;
        let ack = acknowledged.await.map_err(|_| NotRecorded)?;
        Recorded::new(value, ack).map_err(|_| NotRecorded)
    }

    /// A recorder whose every request is acknowledged at once, and the records it was asked for.
    #[cfg(test)]
    pub(crate) fn acknowledging() -> (Self, mpsc::UnboundedReceiver<WorkerRecord>) {
        let (recorder, mut requests) = Self::new();
        let (seen, records) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut number = 0;
            while let Some(Request { what, done }) = requests.recv().await {
                number += 1;
                let record = protocol::recorded::RecordId { launch: 1, number };
                // Nobody may be left to look at either.
                let _ = done.send(Ack::mint(record, what.digest()));
                let _ = seen.send(what);
            }
        });
        (recorder, records)
    }
}

const fn happened(subsession_id: SubsessionId, event: SubsessionEvent) -> WorkerRecord {
    WorkerRecord::Subsession { subsession_id, event }
}

#[cfg(test)]
mod tests {
    use protocol::{digest::Digest, id::ActionId, receipt::Facts, recorded::RecordId, timestamp::Timestamp};

    use super::*;

    fn receipt() -> Receipt {
        Receipt {
            action_id: ActionId::mint(),
            began_at: Timestamp(1),
            ended_at: Timestamp(2),
            error: None,
            is_error: false,
            content: "text".into(),
            facts: Facts::None,
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_value_comes_back_recorded_and_the_record_is_the_value() {
        let (recorder, mut records) = Recorder::acknowledging();
        let prepared = Prepared {
            action_id: ActionId::mint(),
            prepared_at: Timestamp(1),
            effect: protocol::action::Effect::Command { argv: vec!["true".into()], cwd: "/".into() },
        };
        assert_eq!(recorder.prepared(prepared.clone()).await.unwrap().get(), &prepared);
        assert_eq!(records.recv().await.unwrap(), WorkerRecord::Prepared(prepared));
        let receipt = receipt();
        let recorded = recorder.receipt(receipt.clone()).await.unwrap();
        assert_eq!(recorded.get(), &receipt);
        assert_eq!(records.recv().await.unwrap(), WorkerRecord::Receipt(receipt));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn without_the_right_acknowledgement_nothing_is_recorded() {
        let (recorder, mut requests) = Recorder::new();
        let asked = tokio::spawn(async move { recorder.receipt(receipt()).await });
        drop(requests.recv().await.unwrap().done);
        assert_eq!(asked.await.unwrap(), Err(NotRecorded));

        let (recorder, mut requests) = Recorder::new();
        let asked = tokio::spawn(async move { recorder.receipt(receipt()).await });
        let other = Ack::mint(RecordId { launch: 1, number: 1 }, Digest::of(b"another value"));
        requests.recv().await.unwrap().done.send(other).unwrap();
        assert_eq!(asked.await.unwrap(), Err(NotRecorded));

        let (recorder, requests) = Recorder::new();
        drop(requests);
        assert_eq!(recorder.receipt(receipt()).await, Err(NotRecorded));
    }
}
