//! What a worker asks to be recorded, checked against what the session remembers.
//!
//! Invariant: the same request again gets the same acknowledgement; a request that contradicts the record is a conflict.

use protocol::{
    id::ActionId,
    receipt::{Facts, Receipt},
    recorded::{Ack, RecordId},
    session::RunOutcome,
    turn::Turn,
    wire::to_supervisor::WorkerRecord,
};

use super::{ActionRecord, Claude, Process, Progress, State};
use crate::ledger::record::Entry;

/// What becomes of a worker's request.
#[derive(Debug)]
#[must_use]
pub(crate) enum Accepted {
    /// It was recorded before.
    Again(Ack),
    /// Record this, then acknowledge it.
    Append(Box<Entry>),
    /// It contradicts the record, for the reason given.
    Conflict(String),
}

impl State {
    /// Judges a worker's request.
    pub(crate) fn accept(&self, request: RecordId, what: WorkerRecord) -> Accepted {
        match self.launch() {
            Some(launch) if launch.number == request.launch => {}
            Some(_) | None => return conflict("it comes from another process than the session's newest"),
        }
        if let Some(ack) = self.acks.get(&request.number) {
            return if ack.digest() == what.digest() {
                Accepted::Again(ack.clone())
            } else {
                conflict("another record has this number")
            };
        }
        match self.entry(request, what) {
            Ok(entry) => Accepted::Append(Box::new(entry)),
            Err(reason) => conflict(reason),
        }
    }

    fn entry(&self, request: RecordId, what: WorkerRecord) -> Result<Entry, &'static str> {
        match what {
            WorkerRecord::ClaudeStarted { version } => match self.process {
                Process::Attached { claude: Claude::Coming, .. } => {
                    Ok(Entry::ClaudeStarted { request, version })
                }
                Process::Attached { .. } | Process::Starting(_) | Process::None => {
                    Err("this process's Claude Code was there before")
                }
            },
            WorkerRecord::TurnOpened(turn) => {
                self.may_open(&turn)?;
                Ok(Entry::TurnOpened { request, turn })
            }
            WorkerRecord::Prepared(prepared) => match &self.current(prepared.action_id)?.progress {
                Progress::Authorized => Ok(Entry::Prepared { request, prepared }),
                Progress::Prepared(_) | Progress::Done(_) | Progress::Resolved(_) => {
                    Err("the action was prepared before")
                }
            },
            WorkerRecord::Receipt(receipt) => {
                self.may_receive(&receipt)?;
                Ok(Entry::Receipt { request, receipt })
            }
            WorkerRecord::Subsession { subsession_id, event } => {
                self.may_happen(subsession_id, &event)?;
                Ok(Entry::Subsession { request: Some(request), subsession_id, event })
            }
            WorkerRecord::RunEnded { run_id, outcome, detail } => match self.open_run() {
                Some(run) if run.run_id == run_id && outcome != RunOutcome::Running => {
                    Ok(Entry::RunEnded { request: Some(request), run_id, outcome, detail })
                }
                Some(_) | None => Err("the run is not the open one"),
            },
            WorkerRecord::ClaudeGone { had_started, detail } => match self.process {
                Process::Attached { claude: Claude::Coming | Claude::Running, .. } => {
                    Ok(Entry::ClaudeGone { request, had_started, detail })
                }
                Process::Attached { claude: Claude::Gone, .. } | Process::Starting(_) | Process::None => {
                    Err("this process's Claude Code was gone before")
                }
            },
        }
    }

    fn may_open(&self, turn: &Turn) -> Result<(), &'static str> {
        let run = self.open_run().ok_or("no run is open")?;
        if run.run_id != turn.run_id {
            return Err("the turn belongs to another run than the open one");
        }
        if run.open.is_some() {
            return Err("another turn is open");
        }
        if turn.sequence != run.turns + 1 {
            return Err("the turn's number does not follow the one before");
        }
        let last = run.answer.as_ref().map(|answer| answer.reply.turn_id);
        if last == Some(turn.turn_id) || run.first_turn == Some(turn.turn_id) {
            return Err("the turn was answered before");
        }
        if turn.answers.is_some() && turn.answers != last {
            return Err("the turn follows another reply than the newest");
        }
        Ok(())
    }

    fn current(&self, id: ActionId) -> Result<&ActionRecord, &'static str> {
        let run = self.open_run().ok_or("no run is open")?;
        let answer = run.answer.as_ref().ok_or("no reply authorized it")?;
        answer.actions.iter().find(|a| a.action_id == id).ok_or("the newest reply did not authorize it")
    }

    fn may_receive(&self, receipt: &Receipt) -> Result<(), &'static str> {
        let had_effect = match &receipt.facts {
            Facts::None | Facts::Observed(_) => false,
            Facts::Wrote { .. } | Facts::Ran(_) | Facts::Removed(_) => true,
        };
        match &self.current(receipt.action_id)?.progress {
            Progress::Authorized if had_effect => Err("its effect was never prepared"),
            Progress::Authorized | Progress::Prepared(_) => Ok(()),
            Progress::Done(_) => Err("the action has a receipt"),
            Progress::Resolved(_) => Err("the action was resolved"),
        }
    }
}

fn conflict(reason: &str) -> Accepted {
    Accepted::Conflict(reason.to_owned())
}
