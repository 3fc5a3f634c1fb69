//! Every message that was ever released, byte by byte: an older worker must understand a newer supervisor and the reverse.
//!
//! A line of `golden/messages.txt` is a message's name and its encoding in hex. Lines are only ever added. When this test fails
//! because something was added, it prints the lines as they are now.

use std::fmt::Write;

use proptest::prelude::{Strategy, any, proptest};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    codec,
    to_supervisor::{EndReason, ToSupervisor, WorkerRecord, WorkerState},
    to_worker::{StopReason, ToWorker},
};
use crate::{
    action::{Action, Effect, Prepared, PreparedRemoval, PreparedWrite, Resolution},
    canonical::CanonicalJson,
    digest::{Digest, hex},
    failure::ToolErrorCode,
    id::{ActionId, InstanceId, RunId, SubsessionId, TurnId},
    limits::FRAME_BYTES,
    process_identity::ProcessIdentity,
    receipt::{CommandEnd, CommandRun, Facts, FileVersion, Receipt},
    recorded::{Ack, RecordId},
    session::RunOutcome,
    subagent::{SubsessionEnd, SubsessionEvent, SubsessionState},
    timestamp::Timestamp,
    tool::ToolName,
    turn::{Reply, Turn},
};

const GOLDEN: &str = include_str!("golden/messages.txt");

const RECORD: RecordId = RecordId { launch: 2, number: 300 };

fn digest(byte: u8) -> Digest {
    Digest::from_bytes([byte; 32])
}

fn run() -> RunId {
    RunId::from_bytes([0x11; 16])
}

fn turn() -> TurnId {
    TurnId::from_bytes([0x22; 16])
}

fn action() -> ActionId {
    ActionId::from_bytes([0x33; 16])
}

/// One of each, with its name. The match below refuses to compile when a variant is added and has no name here.
fn to_worker() -> Vec<(String, ToWorker)> {
    let ack = Ack::mint(RECORD, digest(0xaa));
    let call = Action {
        action_id: action(),
        tool: ToolName::Read,
        input: CanonicalJson::of(&serde_json::json!({"path": "/é", "offset": 1})).unwrap(),
    };
    let text = Reply {
        reply_id: "r-1".parse().unwrap(),
        turn_id: turn(),
        text: Some("done".into()),
        actions: vec![],
    };
    let calls = Reply { text: None, actions: vec![call], ..text.clone() };
    let mut all = vec![
        ToWorker::BeginRun { run_id: run(), prompt: "find it".into() },
        ToWorker::Ack(ack.clone()),
        ToWorker::Conflict { record: RECORD, reason: "other content".into() },
        ToWorker::DeliverReply { reply: text, ack: ack.clone() },
        ToWorker::DeliverReply { reply: calls, ack },
        ToWorker::Lease { expires_at: Timestamp(1_790_000_000_123) },
        ToWorker::Bye,
    ];
    all.extend([StopReason::Stopped, StopReason::LeaseExpired, StopReason::Replaced].map(ToWorker::Stop));
    let name = |message: &ToWorker| match message {
        ToWorker::BeginRun { .. } => "BeginRun".to_owned(),
        ToWorker::Ack(_) => "Ack".to_owned(),
        ToWorker::Conflict { .. } => "Conflict".to_owned(),
        ToWorker::DeliverReply { reply, .. } if reply.is_final() => "DeliverReply.text".to_owned(),
        ToWorker::DeliverReply { .. } => "DeliverReply.calls".to_owned(),
        ToWorker::Lease { .. } => "Lease".to_owned(),
        ToWorker::Stop(reason @ (StopReason::Stopped | StopReason::LeaseExpired | StopReason::Replaced)) => {
            format!("Stop.{reason:?}")
        }
        ToWorker::Bye => "Bye".to_owned(),
    };
    all.into_iter().map(|message| (format!("ToWorker.{}", name(&message)), message)).collect()
}

fn receipts() -> Vec<(&'static str, Receipt)> {
    let version = FileVersion { path: "/p/a".into(), sha256: digest(0xcc), bytes: 70_000 };
    let ran = |end| Facts::Ran(CommandRun { end, stdout_bytes: 1, stderr_bytes: 300, cut_bytes: 0 });
    let plain = Receipt {
        action_id: action(),
        began_at: Timestamp(1),
        ended_at: Timestamp(2),
        error: None,
        is_error: false,
        content: "content".into(),
        facts: Facts::None,
    };
    let with = |facts| Receipt { facts, ..plain.clone() };
    vec![
        ("error", Receipt { error: Some(ToolErrorCode::NotFound), is_error: true, ..plain.clone() }),
        ("observed", with(Facts::Observed(version.clone()))),
        ("wrote", with(Facts::Wrote { before: None, after: version.clone() })),
        ("rewrote", with(Facts::Wrote { before: Some(digest(0xbb)), after: version })),
        ("exit", with(ran(CommandEnd::Exit(-1)))),
        ("signal", with(ran(CommandEnd::Signal(9)))),
        ("timed_out", with(ran(CommandEnd::TimedOut(120)))),
        ("stopped", with(ran(CommandEnd::Stopped))),
        ("not_started", with(ran(CommandEnd::NotStarted))),
        (
            "removed",
            with(Facts::Removed(FileVersion { path: "/p/b".into(), sha256: digest(0xee), bytes: 3 })),
        ),
        ("plain", plain),
    ]
}

fn effects() -> Vec<(&'static str, Effect)> {
    let write = PreparedWrite {
        path: "src/a".into(),
        before: None,
        after: digest(0xdd),
        bytes: (0, 5),
        temporary: ".tmp".into(),
        made_directories: vec!["src".into()],
    };
    let removal = PreparedRemoval {
        path: "src/b".into(),
        before: digest(0xee),
        bytes: 3,
        mode: 0o644,
        temporary: ".tmp".into(),
        directories: vec!["src".into()],
    };
    vec![
        ("write", Effect::Write(write)),
        ("remove", Effect::Remove(removal)),
        ("command", Effect::Command { argv: vec!["ls".into(), "-l".into()], cwd: "/p".into() }),
        ("subsession", Effect::Subsession { subsession_id: SubsessionId::from_bytes([0x44; 16]) }),
    ]
}

fn subsession_events() -> Vec<(String, SubsessionEvent)> {
    let called = Action {
        action_id: action(),
        tool: ToolName::Write,
        input: CanonicalJson::of(&serde_json::json!({"file_path": "/a", "content": ""})).unwrap(),
    };
    let effect = Effect::Command { argv: vec!["ls".into()], cwd: "/p".into() };
    let (_, receipt) = receipts().remove(0);
    let mut all = vec![
        ("Called".to_owned(), SubsessionEvent::Called(called)),
        (
            "Prepared".to_owned(),
            SubsessionEvent::Prepared(Prepared { action_id: action(), prepared_at: Timestamp(1), effect }),
        ),
        ("Receipt".to_owned(), SubsessionEvent::Receipt(receipt)),
    ];
    for state in [
        SubsessionState::Starting,
        SubsessionState::Running,
        SubsessionState::Finished,
        SubsessionState::Failed,
        SubsessionState::Stopped,
        SubsessionState::Lost,
    ] {
        let end = SubsessionEnd { state, reason: Some("why".into()), text: Some("text".into()), turns: 3 };
        all.push((format!("Ended.{}", state.name()), SubsessionEvent::Ended(end)));
    }
    let resolution = Resolution::NotStarted;
    let resolved = SubsessionEvent::Resolved { action_id: action(), resolution, detail: "how".into() };
    all.push(("Resolved".to_owned(), resolved));
    all
}

fn worker_records() -> Vec<(String, WorkerRecord)> {
    let opened = Turn {
        turn_id: turn(),
        run_id: run(),
        sequence: 3,
        opened_at: Timestamp(1_790_000_000_123),
        answers: Some(TurnId::from_bytes([0x55; 16])),
    };
    let first = Turn { answers: None, ..opened.clone() };
    let mut all = vec![
        ("ClaudeStarted".to_owned(), WorkerRecord::ClaudeStarted { version: "2.1.247".into() }),
        ("TurnOpened".to_owned(), WorkerRecord::TurnOpened(opened)),
        ("TurnOpened.first".to_owned(), WorkerRecord::TurnOpened(first)),
        ("ClaudeGone".to_owned(), WorkerRecord::ClaudeGone { had_started: true, detail: "exit 1".into() }),
    ];
    for (name, effect) in effects() {
        let prepared = Prepared { action_id: action(), prepared_at: Timestamp(1), effect };
        all.push((format!("Prepared.{name}"), WorkerRecord::Prepared(prepared)));
    }
    for (name, receipt) in receipts() {
        all.push((format!("Receipt.{name}"), WorkerRecord::Receipt(receipt)));
    }
    for outcome in
        [RunOutcome::Running, RunOutcome::Finished, RunOutcome::Lost, RunOutcome::Failed, RunOutcome::Stopped]
    {
        let detail = Some("why".into());
        all.push((
            format!("RunEnded.{}", outcome.name()),
            WorkerRecord::RunEnded { run_id: run(), outcome, detail },
        ));
    }
    for (name, event) in subsession_events() {
        let subsession_id = SubsessionId::from_bytes([0x44; 16]);
        all.push((format!("Subsession.{name}"), WorkerRecord::Subsession { subsession_id, event }));
    }
    for (_, record) in &all {
        // A new variant has to be added above too.
        match record {
            WorkerRecord::ClaudeStarted { .. }
            | WorkerRecord::TurnOpened(_)
            | WorkerRecord::Prepared(_)
            | WorkerRecord::Receipt(_)
            | WorkerRecord::RunEnded { .. }
            | WorkerRecord::ClaudeGone { .. }
            | WorkerRecord::Subsession { .. } => {}
        }
    }
    all
}

fn to_supervisor() -> Vec<(String, ToSupervisor)> {
    let state = WorkerState {
        instance: InstanceId::from_bytes([0x66; 16]),
        launch: 2,
        identity: ProcessIdentity { pid: 4242, started: 1 << 40, boot: "boot".into() },
        run: Some(run()),
        released: Some(turn()),
        acknowledged: 299,
        claude_version: Some("2.1.247".into()),
    };
    let fresh =
        WorkerState { run: None, released: None, acknowledged: 0, claude_version: None, ..state.clone() };
    let mut all = vec![
        ("Attached".to_owned(), ToSupervisor::Attached(state)),
        ("Attached.fresh".to_owned(), ToSupervisor::Attached(fresh)),
        ("Bye".to_owned(), ToSupervisor::Bye),
    ];
    for (name, what) in worker_records() {
        all.push((format!("Record.{name}"), ToSupervisor::Record { record: RECORD, what }));
    }
    for reason in [
        EndReason::Stopped,
        EndReason::LeaseExpired,
        EndReason::LaunchFailed { message: "no such program".into(), wall: false },
        EndReason::ClaudeGone,
        EndReason::Conflict,
    ] {
        let name = match &reason {
            EndReason::Stopped => "Stopped",
            EndReason::LeaseExpired => "LeaseExpired",
            EndReason::LaunchFailed { .. } => "LaunchFailed",
            EndReason::ClaudeGone => "ClaudeGone",
            EndReason::Conflict => "Conflict",
        };
        all.push((format!("Ended.{name}"), ToSupervisor::Ended(reason)));
    }
    for (_, message) in &all {
        // A new variant has to be added above too.
        match message {
            ToSupervisor::Attached(_)
            | ToSupervisor::Record { .. }
            | ToSupervisor::Ended(_)
            | ToSupervisor::Bye => {}
        }
    }
    all.into_iter().map(|(name, message)| (format!("ToSupervisor.{name}"), message)).collect()
}

fn lines<T: Serialize>(named: &[(String, T)], out: &mut String) {
    for (name, message) in named {
        writeln!(out, "{name} {}", hex(&codec::encode(message).unwrap())).unwrap();
    }
}

#[test]
fn no_released_message_ever_changes() {
    let mut now = String::new();
    lines(&to_worker(), &mut now);
    lines(&to_supervisor(), &mut now);
    let codes: Vec<_> =
        ToolErrorCode::ALL.iter().map(|code| (format!("ToolErrorCode.{code}"), *code)).collect();
    lines(&codes, &mut now);
    let tools: Vec<_> = ToolName::ALL.iter().map(|tool| (format!("ToolName.{tool:?}"), *tool)).collect();
    lines(&tools, &mut now);
    assert!(now == GOLDEN, "golden/messages.txt does not say what is encoded now:\n{now}");
}

#[test]
fn golden_messages_are_understood() {
    fn check<T: DeserializeOwned + PartialEq + std::fmt::Debug>(named: Vec<(String, T)>) {
        for (name, message) in named {
            let line = GOLDEN.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
            let bytes: Vec<u8> = (0..line.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
                .collect();
            assert_eq!(codec::decode::<T>(&bytes).unwrap(), message, "{name}");
            assert!(codec::decode::<T>(&[&bytes[..], &[0]].concat()).is_err(), "{name} with a byte too many");
            assert!(codec::decode::<T>(&bytes[..bytes.len() - 1]).is_err(), "{name} with a byte too few");
        }
    }
    check(to_worker());
    check(to_supervisor());
}

/// Bytes that get further than random ones: a message with some bytes changed and some cut.
fn nearly(messages: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6);
    (proptest::sample::select(messages), changes, any::<proptest::sample::Index>(), any::<bool>()).prop_map(
        |(mut bytes, changes, end, cut)| {
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if cut {
                bytes.truncate(end.index(bytes.len()));
            }
            bytes
        },
    )
}

fn encoded<T: Serialize>(named: &[(String, T)]) -> Vec<Vec<u8>> {
    named.iter().map(|(_, message)| codec::encode(message).unwrap()).collect()
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = codec::decode::<ToWorker>(&bytes);
        let _ = codec::decode::<ToSupervisor>(&bytes);
    }

    #[test]
    fn nearly_right_bytes_never_panic_and_what_is_taken_can_be_sent(
        to_worker in nearly(encoded(&to_worker())),
        to_supervisor in nearly(encoded(&to_supervisor())),
    ) {
        if let Ok(message) = codec::decode::<ToWorker>(&to_worker) {
            assert_eq!(codec::decode::<ToWorker>(&codec::encode(&message).unwrap()).unwrap(), message);
        }
        if let Ok(message) = codec::decode::<ToSupervisor>(&to_supervisor) {
            assert_eq!(codec::decode::<ToSupervisor>(&codec::encode(&message).unwrap()).unwrap(), message);
        }
    }
}

#[test]
fn a_length_that_lies_is_refused_before_anything_is_allocated() {
    // A BeginRun whose prompt claims 2^62 bytes, and a reply that claims 2^60 actions.
    let mut huge = codec::encode(&ToWorker::BeginRun { run_id: run(), prompt: String::new() }).unwrap();
    huge.truncate(huge.len() - 1);
    huge.push(253);
    huge.extend_from_slice(&(1_u64 << 62).to_le_bytes());
    assert!(codec::decode::<ToWorker>(&huge).is_err());
    assert!(codec::decode::<ToWorker>(&vec![0xff; FRAME_BYTES + 1]).is_err());
}
