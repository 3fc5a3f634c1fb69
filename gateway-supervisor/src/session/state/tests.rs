use protocol::{
    action::{Action, Effect, PreparedWrite},
    canonical::CanonicalJson,
    id::{ClaudeSessionId, LeaseId, SessionId, SubsessionId},
    profile::{Profile, SubagentPolicy},
    receipt::{Facts, FileVersion},
    recorded::{RecordId, Recordable},
    session::Status,
    subagent::{SubsessionEnd, SubsessionEvent, SubsessionState},
    wire::{
        to_supervisor::WorkerRecord,
        to_worker::{StopReason, ToWorker},
    },
    workspace::{RootIdentity, Workspace, WorkspaceKind},
};
use serde_json::json;

use super::*;
use crate::{
    ledger::record::{Entry, Record, RunStarted},
    session::converge::{Placing, Step, Told, Wire},
};

fn next(state: &State, wire: &Wire) -> Step {
    crate::session::converge::next(state, wire, Placing::Rests)
}

/// A state and the records that make it, one at a time.
struct Book {
    state: State,
    number: u64,
}

impl Book {
    fn new() -> Self {
        let lease = Lease { lease_id: LeaseId::mint(), expires_at: Timestamp(1_000) };
        let identity =
            RootIdentity { device: 1, inode: 1, filesystem: None, born_at: None, boot: "b".into() };
        let birth = Created {
            session_id: SessionId::mint(),
            claude_session_id: ClaudeSessionId::mint(),
            idempotency_key: "k".parse().unwrap(),
            input: Digest::of(b"start"),
            workspace: Workspace {
                kind: WorkspaceKind::ReadOnly,
                root: "/w".into(),
                source: "/w".into(),
                identity,
                notes: vec![],
            },
            profile: Profile::ReadOnly,
            subagent_policy: SubagentPolicy::None,
            label: None,
            skills: vec![],
            lease,
            lease_millis: 1_000,
            conversation: None,
            release: "0".into(),
        };
        let first = Record { at: Timestamp(1), entry: Entry::Created(Box::new(birth)) };
        Self { state: State::born(&first).unwrap(), number: 0 }
    }

    fn apply(&mut self, entry: Entry) -> &mut Self {
        let ack = if let Entry::Replied { reply, .. } = &entry {
            Some(Ack::mint(RecordId { launch: 0, number: 99 }, reply.record_digest()))
        } else {
            None
        };
        self.state.apply(&Record { at: Timestamp(2), entry }, ack);
        self
    }

    fn run(&mut self, key: &str) -> &mut Self {
        let run = RunStarted {
            run_id: RunId::mint(),
            sequence: 1,
            idempotency_key: key.parse().unwrap(),
            input: Digest::of(key.as_bytes()),
            prompt: "p".into(),
        };
        self.apply(Entry::RunStarted(run))
    }

    fn worker(&mut self) -> &mut Self {
        let launch = self.state.launches + 1;
        let identity = ProcessIdentity { pid: 1, started: 1, boot: "b".into() };
        self.apply(Entry::WorkerStarting { launch, instance: InstanceId::mint(), socket: "/s".into() })
            .apply(Entry::WorkerAttached { launch, identity })
    }

    /// What the worker asks is judged, and recorded where it is taken.
    fn asks(&mut self, what: WorkerRecord) -> Result<(), String> {
        self.number += 1;
        let request = RecordId { launch: self.state.launches, number: self.number };
        let digest = what.digest();
        match self.state.accept(request, what) {
            Accepted::Append(entry) => {
                let record = Record { at: Timestamp(3), entry: *entry };
                self.state.apply(&record, Some(Ack::mint(request, digest)));
                Ok(())
            }
            Accepted::Again(_) => panic!("a fresh number"),
            Accepted::Conflict(reason) => Err(reason),
        }
    }

    fn turn(&self) -> Turn {
        let run = self.state.run.as_ref().unwrap();
        Turn {
            turn_id: TurnId::mint(),
            run_id: run.run_id,
            sequence: run.turns + 1,
            opened_at: Timestamp(2),
            answers: run.answer.as_ref().map(|answer| answer.reply.turn_id),
        }
    }

    fn asks_turn(&mut self) -> &mut Self {
        self.asks(WorkerRecord::TurnOpened(self.turn())).unwrap();
        self
    }

    fn reply(&mut self, calls: usize) -> Vec<ActionId> {
        let input = CanonicalJson::of(&json!({"file_path": "/a"})).unwrap();
        let actions: Vec<Action> = (0..calls)
            .map(|_| Action { action_id: ActionId::mint(), tool: ToolName::Read, input: input.clone() })
            .collect();
        let ids = actions.iter().map(|action| action.action_id).collect();
        let reply = Reply {
            reply_id: format!("r{}", self.state.records).parse().unwrap(),
            turn_id: self.state.open_turn().unwrap().turn_id,
            text: (calls == 0).then(|| "end".into()),
            actions,
        };
        self.apply(Entry::Replied { input: Digest::of(b"reply"), reply });
        ids
    }
}

fn receipt(action_id: ActionId, facts: Facts) -> Receipt {
    let at = Timestamp(3);
    Receipt {
        action_id,
        began_at: at,
        ended_at: at,
        error: None,
        is_error: false,
        content: "c".into(),
        facts,
    }
}

fn prepared(action_id: ActionId) -> Prepared {
    let effect = Effect::Write(PreparedWrite {
        path: "a".into(),
        before: None,
        after: Digest::of(b"new"),
        bytes: (0, 3),
        temporary: "t".into(),
        made_directories: vec![],
    });
    Prepared { action_id, prepared_at: Timestamp(3), effect }
}

#[test]
fn where_a_session_stands_and_what_is_done_next_at_every_step() {
    let mut book = Book::new();
    let (down, up) = (Wire::Down, |told: Told| Wire::Up(told));
    assert_eq!((book.state.status(), next(&book.state, &down)), (Status::Idle, Step::Rest));
    book.run("k");
    assert_eq!((book.state.status(), next(&book.state, &down)), (Status::Starting, Step::Start));
    book.worker();
    assert_eq!(next(&book.state, &down), Step::Find);
    assert_eq!(next(&book.state, &Wire::Busy), Step::Rest);
    assert!(matches!(next(&book.state, &up(Told::default())), Step::Tell(ToWorker::BeginRun { .. })));
    book.asks_turn();
    let mut told = Told { run: book.state.run.as_ref().map(|run| run.run_id), ..Told::default() };
    assert_eq!(
        (book.state.status(), next(&book.state, &up(told.clone()))),
        (Status::WaitingForGpt, Step::Rest)
    );
    book.reply(0);
    let Step::Tell(deliver) = next(&book.state, &up(told.clone())) else {
        panic!("a reply is to be delivered")
    };
    assert_eq!(book.state.status(), Status::Running);
    told.note(&deliver);
    assert_eq!(next(&book.state, &up(told.clone())), Step::Rest);
    // A worker that was found again and has not released it gets it again.
    let before = Told { replied: None, ..told.clone() };
    assert_eq!(next(&book.state, &up(before)), Step::Tell(deliver));
    let run_id = book.state.run.as_ref().unwrap().run_id;
    book.asks(WorkerRecord::RunEnded { run_id, outcome: RunOutcome::Finished, detail: None }).unwrap();
    assert_eq!((book.state.status(), next(&book.state, &up(told))), (Status::Idle, Step::Rest));
}

#[test]
fn every_end_is_carried_out_whatever_was_going_on() {
    let stop = || Entry::StopRequested { request_id: None, input: None, reason: None };
    for (entry, reason) in [(stop(), StopReason::Stopped), (Entry::LeaseExpired, StopReason::LeaseExpired)] {
        let mut book = Book::new();
        book.run("k").worker().asks_turn().apply(entry);
        assert!(book.state.open_turn().is_none());
        let told = Told::default();
        assert_eq!(next(&book.state, &Wire::Up(told)), Step::Tell(ToWorker::Stop(reason)));
        let told = Told { stop: true, ..Told::default() };
        assert_eq!(next(&book.state, &Wire::Up(told)), Step::Rest);
        assert_eq!(next(&book.state, &Wire::Down), Step::Find);
        for lost in book.state.lose_worker("killed", &Findings::new()) {
            book.apply(lost);
        }
        let last = if reason == StopReason::Stopped { Step::End } else { Step::Rest };
        assert_eq!(next(&book.state, &Wire::Down), last);
    }
    // A crash between the worker's end and the run's: the run is closed, not started again.
    let mut book = Book::new();
    book.run("k").worker().apply(Entry::WorkerGone { launch: 1, detail: String::new() });
    assert_eq!(next(&book.state, &Wire::Down), Step::CloseRun);
}

#[test]
fn a_workers_request_is_taken_once_and_only_where_it_fits() {
    let mut book = Book::new();
    book.run("k").worker();
    let early = WorkerRecord::Receipt(receipt(ActionId::mint(), Facts::None));
    assert!(book.asks(early).unwrap_err().contains("no reply"));
    book.asks_turn();
    assert!(book.asks(WorkerRecord::TurnOpened(book.turn())).unwrap_err().contains("another turn is open"));
    let ids = book.reply(2);
    let skipped = Turn { sequence: 9, ..book.turn() };
    assert!(book.asks(WorkerRecord::TurnOpened(skipped)).unwrap_err().contains("number"));
    let foreign = Turn { run_id: RunId::mint(), ..book.turn() };
    assert!(book.asks(WorkerRecord::TurnOpened(foreign)).unwrap_err().contains("another run"));
    let stranger = WorkerRecord::Receipt(receipt(ActionId::mint(), Facts::None));
    assert!(book.asks(stranger).unwrap_err().contains("did not authorize"));
    let version = FileVersion { path: "/w/a".into(), sha256: Digest::of(b"new"), bytes: 3 };
    let wrote = || Facts::Wrote { before: None, after: version.clone() };
    assert!(
        book.asks(WorkerRecord::Receipt(receipt(ids[0], wrote()))).unwrap_err().contains("never prepared")
    );
    book.asks(WorkerRecord::Prepared(prepared(ids[0]))).unwrap();
    assert!(book.asks(WorkerRecord::Prepared(prepared(ids[0]))).unwrap_err().contains("prepared before"));
    book.asks(WorkerRecord::Receipt(receipt(ids[0], wrote()))).unwrap();
    assert!(
        book.asks(WorkerRecord::Receipt(receipt(ids[0], wrote()))).unwrap_err().contains("has a receipt")
    );

    let what = WorkerRecord::Receipt(receipt(ids[1], Facts::None));
    book.asks(what.clone()).unwrap();
    let request = RecordId { launch: 1, number: book.number };
    assert!(matches!(book.state.accept(request, what.clone()), Accepted::Again(_)));
    let other = WorkerRecord::ClaudeStarted { version: "x".into() };
    assert!(matches!(book.state.accept(request, other), Accepted::Conflict(_)));
    let elsewhere = RecordId { launch: 2, number: 1 };
    assert!(matches!(book.state.accept(elsewhere, what), Accepted::Conflict(_)));
}

#[test]
fn an_indeterminate_action_holds_the_session_until_it_is_acknowledged() {
    let mut book = Book::new();
    book.run("k").worker().asks_turn();
    let ids = book.reply(2);
    book.asks(WorkerRecord::Prepared(prepared(ids[0]))).unwrap();
    assert_eq!(book.state.in_doubt().len(), 1);
    for lost in book.state.lose_worker("killed", &Findings::new()) {
        book.apply(lost);
    }
    assert_eq!((book.state.status(), book.state.recovery_required()), (Status::RecoveryRequired, true));
    let lease = Lease { lease_id: LeaseId::mint(), expires_at: Timestamp(9_000) };
    let recovered =
        Entry::Recovered { recovery_id: "rec".parse().unwrap(), input: Digest::of(b"rec"), lease };
    book.apply(recovered);
    assert_eq!((book.state.status(), book.state.lease), (Status::Idle, lease));
    let outcomes: Vec<_> = book.state.lost.iter().map(|action| action.progress.clone()).collect();
    assert!(matches!(
        outcomes[..],
        [Progress::Resolved(Resolution::Indeterminate), Progress::Resolved(Resolution::NotStarted)]
    ));
}

#[test]
fn only_renewals_leave_the_revision_alone() {
    let mut book = Book::new();
    let before = book.state.revision;
    book.apply(Entry::LeaseRenewed { expires_at: Timestamp(5_000) });
    assert_eq!((book.state.revision, book.state.lease.expires_at), (before, Timestamp(5_000)));
    book.run("k");
    assert_eq!(book.state.revision, before + 1);
}

/// A session whose newest reply began a sub-session, and that sub-session's id.
fn delegating() -> (Book, SubsessionId) {
    let mut book = Book::new();
    book.run("k").worker().asks_turn();
    let input = CanonicalJson::of(&json!({"task": "t", "model": "fable"})).unwrap();
    let action = Action { action_id: ActionId::mint(), tool: ToolName::SubagentStart, input };
    let (action_id, turn_id) = (action.action_id, book.state.open_turn().unwrap().turn_id);
    let reply = Reply { reply_id: "d".parse().unwrap(), turn_id, text: None, actions: vec![action] };
    book.apply(Entry::Replied { input: Digest::of(b"d"), reply });
    let subsession_id = SubsessionId::mint();
    let effect = Effect::Subsession { subsession_id };
    book.asks(WorkerRecord::Prepared(Prepared { action_id, prepared_at: Timestamp(3), effect })).unwrap();
    assert_eq!(book.state.active_subsession().map(|sub| sub.state), Some(SubsessionState::Starting));
    book.asks(WorkerRecord::Receipt(receipt(action_id, Facts::None))).unwrap();
    assert_eq!(book.state.active_subsession().map(|sub| sub.state), Some(SubsessionState::Running));
    (book, subsession_id)
}

fn call() -> Action {
    let input = CanonicalJson::of(&json!({"file_path": "/w/a", "content": "new"})).unwrap();
    Action { action_id: ActionId::mint(), tool: ToolName::Write, input }
}

fn end(state: SubsessionState) -> SubsessionEvent {
    SubsessionEvent::Ended(SubsessionEnd { state, reason: None, text: None, turns: 1 })
}

#[test]
fn a_sub_session_is_active_until_the_end_that_follows_its_last_outcome() {
    let (mut book, subsession_id) = delegating();
    let mut asks = |event| book.asks(WorkerRecord::Subsession { subsession_id, event });
    let action = call();
    let id = action.action_id;
    asks(SubsessionEvent::Prepared(prepared(id))).unwrap_err();
    asks(SubsessionEvent::Called(action.clone())).unwrap();
    asks(SubsessionEvent::Called(action)).unwrap_err();
    asks(end(SubsessionState::Finished)).unwrap_err();
    let version = FileVersion { path: "/w/a".into(), sha256: Digest::of(b"new"), bytes: 3 };
    let wrote = SubsessionEvent::Receipt(receipt(id, Facts::Wrote { before: None, after: version }));
    asks(wrote.clone()).unwrap_err();
    asks(SubsessionEvent::Prepared(prepared(id))).unwrap();
    asks(wrote.clone()).unwrap();
    asks(wrote).unwrap_err();
    let detail = String::new();
    asks(SubsessionEvent::Resolved { action_id: id, resolution: Resolution::Applied, detail }).unwrap_err();
    asks(end(SubsessionState::Running)).unwrap_err();
    asks(end(SubsessionState::Finished)).unwrap();
    asks(SubsessionEvent::Called(call())).unwrap_err();
    let other =
        WorkerRecord::Subsession { subsession_id: SubsessionId::mint(), event: end(SubsessionState::Failed) };
    book.asks(other).unwrap_err();
    assert!(book.state.active_subsession().is_none());
    let summary = book.state.subsessions[0].summary();
    assert_eq!((summary.files.len(), summary.files[0].after), (1, Digest::of(b"new")));
}

#[test]
fn a_lost_sub_session_is_over_only_with_its_actions_resolved() {
    for (resolution, needs) in
        [(Resolution::Applied, false), (Resolution::NotApplied, false), (Resolution::Indeterminate, true)]
    {
        let (mut book, subsession_id) = delegating();
        let action = call();
        let id = action.action_id;
        for event in [SubsessionEvent::Called(action), SubsessionEvent::Prepared(prepared(id))] {
            book.asks(WorkerRecord::Subsession { subsession_id, event }).unwrap();
        }
        assert_eq!(book.state.in_doubt().len(), 1);
        assert_eq!(book.state.left_behind().len(), 1);
        let findings = Findings::from([(id, (resolution, "seen".to_owned()))]);
        let entries = book.state.lose_worker("gone", &findings);
        for entry in entries {
            book.apply(entry);
        }
        let sub = &book.state.subsessions[0];
        assert_eq!((sub.state, sub.unresolved().count()), (SubsessionState::Lost, 0));
        assert_eq!(sub.summary().files.len(), usize::from(resolution == Resolution::Applied));
        assert_eq!(book.state.recovery_required(), needs);
        assert!(book.state.active_subsession().is_none() && book.state.in_doubt().is_empty());
    }
}
