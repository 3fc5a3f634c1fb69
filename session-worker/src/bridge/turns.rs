//! Which request of Claude Code is which turn: a pure record of the run's turns.
//!
//! Invariant: at most one turn is open. A request that comes while one is open, or that repeats the last answered one, joins
//! it; any other request of a run opens the next turn.

use protocol::{
    id::{RunId, TurnId},
    timestamp::Timestamp,
    turn::Turn,
};

use super::{gate::Gate, messages::Fingerprint};

/// The turns of the current run.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    run_id: RunId,
    sequence: u32,
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    turn_id: TurnId,
    fingerprint: Fingerprint,
    gate: Gate,
}

/// Where a request belongs.
#[derive(Debug)]
#[must_use]
pub(crate) enum Place {
    /// It opens this turn.
    Opens(Turn, Gate),
    /// It is a repetition: it waits at, or passes, the gate of a turn that is known.
    Joins(TurnId, Gate),
    /// There is no run that it could belong to.
    Nowhere,
}

impl Turns {
    /// A run begins.
    pub(crate) fn begin(&mut self, run_id: RunId) {
        self.end();
        self.run = Some(Run { run_id, sequence: 0, last: None });
    }

    /// The run is over. What still waits at its gate is let go.
    pub(crate) fn end(&mut self) {
        if let Some(last) = self.run.take().and_then(|run| run.last) {
            last.gate.abandon();
        }
    }

    /// Finds a request's turn.
    pub(crate) fn place(&mut self, fingerprint: Fingerprint, now: Timestamp) -> Place {
        let Some(run) = &mut self.run else { return Place::Nowhere };
        if let Some(last) = &run.last
            && (!last.gate.is_open() || last.fingerprint == fingerprint)
        {
            return Place::Joins(last.turn_id, last.gate.clone());
        }
        run.sequence += 1;
        let turn = Turn {
            turn_id: TurnId::mint(),
            run_id: run.run_id,
            sequence: run.sequence,
            opened_at: now,
            answers: run.last.as_ref().map(|last| last.turn_id),
        };
        let gate = Gate::new();
        run.last = Some(Last { turn_id: turn.turn_id, fingerprint, gate: gate.clone() });
        Place::Opens(turn, gate)
    }

    /// The gate of the newest turn, if it is this one.
    pub(crate) fn gate(&self, turn_id: TurnId) -> Option<&Gate> {
        let last = self.run.as_ref()?.last.as_ref()?;
        (last.turn_id == turn_id).then_some(&last.gate)
    }
}

#[cfg(test)]
mod tests {
    use protocol::{
        action::Action,
        canonical::CanonicalJson,
        digest::Digest,
        id::ActionId,
        recorded::{Ack, RecordId, Recordable, Recorded},
        tool::ToolName,
        turn::Reply,
    };

    use super::*;
    use crate::{bridge::gate::Opened, executor::authorize::Authority, top_level::Listed};

    fn print(elements: u64) -> Fingerprint {
        Listed { elements, last: Digest::of(&elements.to_be_bytes()) }
    }

    fn opened(place: Place) -> (Turn, Gate) {
        match place {
            Place::Opens(turn, gate) => (turn, gate),
            Place::Joins(..) | Place::Nowhere => panic!("{place:?}"),
        }
    }

    fn joined(place: &Place) -> TurnId {
        match place {
            Place::Joins(turn, _) => *turn,
            Place::Opens(..) | Place::Nowhere => panic!("{place:?}"),
        }
    }

    fn recorded(turn_id: TurnId) -> Recorded<Reply> {
        let input = CanonicalJson::of(&serde_json::json!({"file_path": "/a"})).unwrap();
        let reply = Reply {
            reply_id: "r".parse().unwrap(),
            turn_id,
            text: None,
            actions: vec![Action { action_id: ActionId::mint(), tool: ToolName::Read, input }],
        };
        let ack = Ack::mint(RecordId { launch: 1, number: 1 }, reply.record_digest());
        Recorded::new(reply, ack).unwrap()
    }

    #[test]
    fn a_request_joins_its_turn_until_the_next_one() {
        let (mut turns, authority, now) = (Turns::default(), Authority::default(), Timestamp(1));
        assert!(matches!(turns.place(print(1), now), Place::Nowhere));
        let run = RunId::mint();
        turns.begin(run);
        let (first, gate) = opened(turns.place(print(1), now));
        assert_eq!((first.sequence, first.answers, first.run_id), (1, None, run));
        // While it is open every request is it, whatever it looks like.
        assert_eq!(joined(&turns.place(print(1), now)), first.turn_id);
        assert_eq!(joined(&turns.place(print(9), now)), first.turn_id);
        assert_eq!(gate.open(&authority, recorded(first.turn_id)), Opened::Now);
        assert_eq!(gate.open(&authority, recorded(first.turn_id)), Opened::Before, "a gate opens once");
        // A repetition gets the same answer again; what is new opens the next turn.
        assert_eq!(joined(&turns.place(print(1), now)), first.turn_id);
        let (second, _) = opened(turns.place(print(3), now));
        assert_eq!((second.sequence, second.answers), (2, Some(first.turn_id)));
        assert!(turns.gate(first.turn_id).is_none() && turns.gate(second.turn_id).is_some());
    }

    #[test]
    fn a_run_starts_anew() {
        let (mut turns, now) = (Turns::default(), Timestamp(1));
        turns.begin(RunId::mint());
        let (first, _) = opened(turns.place(print(1), now));
        turns.end();
        assert!(turns.gate(first.turn_id).is_none());
        assert!(matches!(turns.place(print(1), now), Place::Nowhere));
        turns.begin(RunId::mint());
        let (again, _) = opened(turns.place(print(1), now));
        assert_ne!(again.turn_id, first.turn_id);
        assert_eq!((again.sequence, again.answers), (1, None));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn everybody_at_the_gate_gets_the_reply_and_nobody_waits_for_a_run_that_is_over() {
        let (authority, turn_id) = (Authority::default(), TurnId::mint());
        let gate = Gate::new();
        let waiting = [gate.clone(), gate.clone()].map(|gate| tokio::spawn(async move { gate.pass().await }));
        assert_eq!(gate.open(&authority, recorded(turn_id)), Opened::Now);
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap().get().turn_id, turn_id);
        }
        gate.abandon();
        assert!(gate.pass().await.is_some(), "what went through stays through");
        let shut = Gate::new();
        shut.abandon();
        assert!(shut.pass().await.is_none());
        assert_eq!(shut.open(&authority, recorded(turn_id)), Opened::Before);
    }
}
