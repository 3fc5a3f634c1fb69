//! The records that the supervisor has not acknowledged yet.
//!
//! Invariant: numbers count up from 1 without a gap, and a record keeps its number for good.

use std::collections::VecDeque;

use protocol::{
    recorded::{Ack, RecordId},
    subagent::SubsessionEvent,
    wire::to_supervisor::{ToSupervisor, WorkerRecord},
};
use tokio::sync::oneshot;

/// The ledger acknowledged something else than what was asked for: nothing may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the acknowledgement of {0:?} is for another record")]
pub(crate) struct WrongAck(pub(crate) RecordId);

/// What was asked to be recorded and is not known to be durable.
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    launch: u32,
    asked: u64,
    acknowledged: u64,
    waiting: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    record: RecordId,
    what: WorkerRecord,
    done: Option<oneshot::Sender<Ack>>,
}

impl Entry {
    fn message(&self) -> ToSupervisor {
        ToSupervisor::Record { record: self.record, what: self.what.clone() }
    }
}

impl Unacknowledged {
    /// No record yet of the process that is number `launch` of its session.
    pub(crate) fn new(launch: u32) -> Self {
        Self { launch, asked: 0, acknowledged: 0, waiting: VecDeque::new() }
    }

    /// Takes a record in and gives the message that asks for it. `done` gets its acknowledgement.
    pub(crate) fn push(&mut self, what: WorkerRecord, done: Option<oneshot::Sender<Ack>>) -> ToSupervisor {
        self.asked += 1;
        let record = RecordId { launch: self.launch, number: self.asked };
        let entry = Entry { record, what, done };
        let message = entry.message();
        self.waiting.push_back(entry);
        message
    }

    /// Takes an acknowledgement. One that came before is no error.
    ///
    /// # Errors
    /// Where it is for another content than the record's.
    pub(crate) fn acknowledge(&mut self, ack: Ack) -> Result<(), WrongAck> {
        let record = ack.record();
        let Some(at) = self.waiting.iter().position(|entry| entry.record == record) else { return Ok(()) };
        if self.waiting.get(at).is_some_and(|entry| entry.what.digest() != ack.digest()) {
            return Err(WrongAck(record));
        }
        self.acknowledged = self.acknowledged.max(record.number);
        if let Some(done) = self.waiting.remove(at).and_then(|entry| entry.done) {
            // Whoever asked may have been cut off since; the record stands all the same.
            let _ = done.send(ack);
        }
        Ok(())
    }

    /// The messages for everything that is not acknowledged, in their order.
    pub(crate) fn again(&self) -> Vec<ToSupervisor> {
        self.waiting.iter().map(Entry::message).collect()
    }

    /// The highest number that was acknowledged.
    pub(crate) const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Whether everything is durable.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets go those who wait: they learn that theirs was not recorded, and begin nothing. Their records are still asked for.
    pub(crate) fn let_go(&mut self) {
        self.waiting.iter_mut().for_each(|entry| entry.done = None);
    }

    /// Gives up waiting: what is to be left in the outbox. Those who wait learn that it was not recorded.
    ///
    /// A prepared action is left out: its effect follows only after its acknowledgement, so it never happened.
    pub(crate) fn leave(self) -> Vec<(RecordId, WorkerRecord)> {
        let prepared = |what: &WorkerRecord| match what {
            WorkerRecord::Prepared(_)
            | WorkerRecord::Subsession { event: SubsessionEvent::Prepared(_), .. } => true,
            WorkerRecord::Subsession { .. }
            | WorkerRecord::ClaudeStarted { .. }
            | WorkerRecord::TurnOpened(_)
            | WorkerRecord::Receipt(_)
            | WorkerRecord::RunEnded { .. }
            | WorkerRecord::ClaudeGone { .. } => false,
        };
        let left = self.waiting.into_iter().filter(|entry| !prepared(&entry.what));
        left.map(|entry| (entry.record, entry.what)).collect()
    }
}

#[cfg(test)]
mod tests {
    use protocol::digest::Digest;

    use super::*;

    fn started(version: &str) -> WorkerRecord {
        WorkerRecord::ClaudeStarted { version: version.into() }
    }

    fn ack(number: u64, what: &WorkerRecord) -> Ack {
        Ack::mint(RecordId { launch: 2, number }, what.digest())
    }

    #[test]
    fn what_is_not_acknowledged_is_asked_again_under_the_same_number() {
        let mut records = Unacknowledged::new(2);
        let sent: Vec<_> = ["a", "b", "c"].map(|name| records.push(started(name), None)).into();
        assert_eq!(records.again(), sent);
        records.acknowledge(ack(1, &started("a"))).unwrap();
        records.acknowledge(ack(1, &started("a"))).unwrap();
        assert_eq!(records.again(), sent[1..]);
        assert_eq!(records.acknowledged(), 1);
        let wrong = Ack::mint(RecordId { launch: 2, number: 2 }, Digest::of(b"other"));
        assert_eq!(records.acknowledge(wrong), Err(WrongAck(RecordId { launch: 2, number: 2 })));
        assert_eq!(records.again(), sent[1..], "a wrong acknowledgement acknowledges nothing");
        records.acknowledge(ack(2, &started("b"))).unwrap();
        assert_eq!(records.leave(), [(RecordId { launch: 2, number: 3 }, started("c"))]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_waits_gets_the_acknowledgement_or_learns_that_there_is_none() {
        let mut records = Unacknowledged::new(2);
        let (done, first) = oneshot::channel();
        records.push(started("a"), Some(done));
        let (done, second) = oneshot::channel();
        records.push(started("b"), Some(done));
        records.acknowledge(ack(1, &started("a"))).unwrap();
        assert_eq!(first.await.unwrap(), ack(1, &started("a")));
        let asked = records.again();
        records.let_go();
        assert!(second.await.is_err());
        assert_eq!(records.again(), asked, "who is let go takes no record with it");
        let (done, third) = oneshot::channel();
        records.push(started("c"), Some(done));
        assert_eq!(records.leave().len(), 2);
        assert!(third.await.is_err());
    }

    #[test]
    fn what_was_only_prepared_is_not_left_whosever_it_is() {
        use protocol::{
            action::{Effect, Prepared},
            id::{ActionId, SubsessionId},
            timestamp::Timestamp,
        };
        let effect = Effect::Command { argv: vec!["true".into()], cwd: "/".into() };
        let prepared = Prepared { action_id: ActionId::mint(), prepared_at: Timestamp(1), effect };
        let event = SubsessionEvent::Prepared(prepared.clone());
        let mut records = Unacknowledged::new(2);
        records.push(WorkerRecord::Prepared(prepared), None);
        records.push(WorkerRecord::Subsession { subsession_id: SubsessionId::mint(), event }, None);
        records.push(started("a"), None);
        assert_eq!(records.leave(), [(RecordId { launch: 2, number: 3 }, started("a"))]);
    }
}
