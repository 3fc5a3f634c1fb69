//! What the supervisor says, and what follows from it.

use protocol::{recorded::Recorded, turn, wire::to_worker::ToWorker};

use super::Worker;
use crate::{
    bridge::Delivered,
    state::{Event, Reply},
};

impl Worker {
    pub(super) fn obey(&mut self, message: ToWorker) {
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

    fn deliver(&mut self, reply: Recorded<turn::Reply>) {
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
}
