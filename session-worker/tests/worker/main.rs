//! A worker with the real Claude Code, driven by a supervisor that the test plays.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why"
)]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test waits for one kind and passes over the rest")]

mod supervisor;

use std::{fs, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use protocol::{
    id::RunId,
    receipt::Receipt,
    session::RunOutcome,
    timestamp::Timestamp,
    tool::ToolName,
    wire::{
        outbox,
        to_supervisor::{EndReason, WorkerRecord},
        to_worker::{StopReason, ToWorker},
    },
};
use serde_json::json;
use supervisor::{Attached, Session, calls, claude_code, text};

fn receipt(what: &WorkerRecord) -> Option<Receipt> {
    match what {
        WorkerRecord::Receipt(receipt) => Some(receipt.clone()),
        _ => None,
    }
}

fn run_end(what: &WorkerRecord) -> Option<(RunId, RunOutcome)> {
    match what {
        WorkerRecord::RunEnded { run_id, outcome, .. } => Some((*run_id, *outcome)),
        _ => None,
    }
}

/// Answers the next turn with text alone and waits for the run's end.
async fn finish(attached: &mut Attached<'_>, run: RunId, words: &str) {
    let turn = attached.turn().await;
    attached.deliver(text(turn.turn_id, words)).await;
    assert_eq!(attached.until(run_end).await, (run, RunOutcome::Finished));
}

#[tokio::test(flavor = "current_thread")]
async fn a_session_from_its_first_prompt_to_its_stop() {
    let mut session = Session::new(claude_code());
    let file = session.root().join("a.txt");
    fs::write(&file, "alpha\nbeta\n").unwrap();
    session.start();
    let mut attached = session.attach().await;
    assert_eq!((attached.state.run, attached.state.released), (None, None));

    let run = attached.begin("Look at the file.").await;
    let first = attached.turn().await;
    assert_eq!((first.run_id, first.sequence, first.answers), (run, 1, None));
    let started = attached.session.ledger.values().find(|w| matches!(w, WorkerRecord::ClaudeStarted { .. }));
    assert!(started.is_some(), "the version is known before the first turn");
    let reply = calls(
        first.turn_id,
        &[(ToolName::Read, json!({"file_path": file})), (ToolName::Read, json!({"file_path": "/nowhere"}))],
    );
    attached.deliver(reply.clone()).await;
    let mut receipts = vec![attached.until(receipt).await, attached.until(receipt).await];
    receipts.sort_by_key(|receipt| receipt.is_error);
    assert!(receipts[0].content.contains("beta"), "{receipts:?}");
    assert!(receipts[1].is_error);
    assert!(receipts.iter().all(|r| reply.actions.iter().any(|a| a.action_id == r.action_id)));
    let second = attached.turn().await;
    assert_eq!((second.sequence, second.answers), (2, Some(first.turn_id)));
    attached.deliver(text(second.turn_id, "It says alpha and beta.")).await;
    assert_eq!(attached.until(run_end).await, (run, RunOutcome::Finished));

    // The same process takes the next prompt; a repeated one is not taken twice.
    let run = attached.begin("And now?").await;
    attached.send(ToWorker::BeginRun { run_id: run, prompt: "And now?".into() }).await;
    finish(&mut attached, run, "Nothing more.").await;
    attached.send(ToWorker::BeginRun { run_id: run, prompt: "And now?".into() }).await;
    let run = attached.begin("/help").await;
    finish(&mut attached, run, "A prompt that looks like a command is a prompt.").await;

    attached.send(ToWorker::Stop(StopReason::Stopped)).await;
    assert_eq!(attached.end().await, EndReason::Stopped);
    assert!(session.ended().await.success());
    assert_eq!(fs::read_dir(session.root()).unwrap().count(), 1, "nothing was written beside the file");
    let log = session.log();
    assert!(!log.contains("alpha") && !log.contains("And now"), "the log holds no contents");
}

#[tokio::test(flavor = "current_thread")]
async fn a_supervisor_that_comes_back_finds_everything_and_claude_code_notices_nothing() {
    let mut session = Session::new(claude_code());
    let file = session.root().join("a.txt");
    fs::write(&file, "alpha\n").unwrap();
    session.start();
    let mut attached = session.attach().await;
    let run = attached.begin("Go.").await;
    // It hears of the turn and dies before it recorded it.
    let (opened, turn) = loop {
        let (record, what) = attached.record().await;
        if let WorkerRecord::TurnOpened(turn) = what {
            break (record, turn);
        }
        attached.acknowledge(record).await;
    };
    drop(attached);

    let claude = session.claude().await.0;
    let mut attached = session.attach().await;
    assert_eq!(attached.state.run, Some(run));
    assert_eq!(attached.state.acknowledged, opened.number - 1);
    let (again, what) = attached.record().await;
    assert_eq!((again, what), (opened, WorkerRecord::TurnOpened(turn.clone())));
    attached.acknowledge(again).await;
    let reply = calls(turn.turn_id, &[(ToolName::Read, json!({"file_path": file}))]);
    attached.deliver(reply.clone()).await;
    // It hears of the receipt and dies before it recorded it.
    let (receipt_record, what) = attached.record().await;
    assert!(receipt(&what).is_some_and(|r| r.content.contains("alpha")));
    drop(attached);

    let mut attached = session.attach().await;
    assert_eq!(attached.state.released, Some(turn.turn_id));
    // A reply that is delivered again changes nothing.
    attached.deliver(reply).await;
    let (again, what_again) = attached.record().await;
    assert_eq!((again, what_again), (receipt_record, what));
    // A newer connection replaces the older one.
    drop(attached);
    let mut attached = session.attach().await;
    let (again, _) = attached.record().await;
    attached.acknowledge(again).await;
    finish(&mut attached, run, "Done.").await;
    assert_eq!(attached.session.claude().await.0, claude, "Claude Code is the same process");
    attached.send(ToWorker::Stop(StopReason::Stopped)).await;
    assert_eq!(attached.end().await, EndReason::Stopped);
    let receipts = session.ledger.values().filter(|what| receipt(what).is_some()).count();
    assert_eq!(receipts, 1, "the action ran once");
    session.ended().await;
}

#[tokio::test(flavor = "current_thread")]
async fn after_claude_code_was_killed_the_next_process_resumes_its_session() {
    let mut session = Session::new(claude_code());
    session.start();
    let mut attached = session.attach().await;
    let run = attached.begin("First prompt.").await;
    finish(&mut attached, run, "First answer.").await;
    // It writes its transcript a little later; killed before that it has nothing to resume.
    let transcript = format!("{}.jsonl", attached.session.launch.claude.session_id);
    let projects = attached.session.launch.directory.join("claude/config/projects");
    supervisor::until("the transcript holds the prompt", || {
        let folder = fs::read_dir(&projects).ok()?.next()?.ok()?;
        let text = fs::read_to_string(folder.path().join(&transcript)).ok()?;
        text.contains("First answer.").then_some(())
    })
    .await;
    attached.begin("Second prompt.").await;
    attached.turn().await;
    let (claude, line) = attached.session.claude().await;
    assert!(line.contains("--session-id"), "{line}");
    kill(Pid::from_raw(claude), Signal::SIGKILL).unwrap();
    let (had_started, detail) = attached
        .until(|what| match what {
            WorkerRecord::ClaudeGone { had_started, detail } => Some((*had_started, detail.clone())),
            _ => None,
        })
        .await;
    assert!(had_started && detail.starts_with("signal 9"), "{detail}");
    assert_eq!(attached.end().await, EndReason::ClaudeGone);
    session.ended().await;

    session.start();
    let mut attached = session.attach().await;
    assert_eq!((attached.state.run, attached.state.released), (None, None));
    let run = attached.begin("Third prompt.").await;
    let turn = attached.turn().await;
    assert_eq!((turn.sequence, turn.answers), (1, None));
    assert!(attached.session.claude().await.1.contains("--resume"));
    attached.deliver(text(turn.turn_id, "Third answer.")).await;
    assert_eq!(attached.until(run_end).await, (run, RunOutcome::Finished));
    attached.send(ToWorker::Stop(StopReason::Replaced)).await;
    assert_eq!(attached.end().await, EndReason::Stopped);
    session.ended().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_stub_of_a_transcript_does_not_stop_the_next_start() {
    let mut session = Session::new(claude_code());
    let folder = session.launch.directory.join("claude/config/projects/-anywhere");
    fs::create_dir_all(&folder).unwrap();
    let stub = folder.join(format!("{}.jsonl", session.launch.claude.session_id));
    fs::write(&stub, "{\"type\":\"mode\",\"mode\":\"normal\"}\n").unwrap();
    session.start();
    let mut attached = session.attach().await;
    let run = attached.begin("Go.").await;
    finish(&mut attached, run, "Gone.").await;
    attached.send(ToWorker::Stop(StopReason::Stopped)).await;
    assert_eq!(attached.end().await, EndReason::Stopped);
    session.ended().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_lease_that_runs_out_ends_everything_though_no_supervisor_is_there() {
    let mut session = Session::new(claude_code());
    let file = session.root().join("a.txt");
    fs::write(&file, "alpha\n").unwrap();
    session.start();
    let mut attached = session.attach().await;
    attached.begin("Go.").await;
    let turn = attached.turn().await;
    attached.deliver(calls(turn.turn_id, &[(ToolName::Read, json!({"file_path": file}))])).await;
    let (record, what) = attached.record().await;
    let done = receipt(&what).unwrap();
    // The receipt was never acknowledged; nobody comes back before the lease is over.
    attached.send(ToWorker::Lease { expires_at: Timestamp::now().plus(Duration::from_millis(300)) }).await;
    let late = attached.begin("The worker has taken the lease when it has taken this.").await;
    drop(attached);
    assert!(session.ended().await.success());
    let left = outbox::decode(&fs::read(session.launch.directory.join(outbox::FILE_NAME)).unwrap()).unwrap();
    assert_eq!(left, [(record, WorkerRecord::Receipt(done))]);
    assert!(!session.log().contains(&late.to_string()));
}

#[tokio::test(flavor = "current_thread")]
async fn a_claude_code_that_does_not_come_up_is_a_failed_launch() {
    for program in ["/nowhere/claude", "/bin/false"] {
        let mut session = Session::new(program.into());
        session.start();
        let mut attached = session.attach().await;
        let EndReason::LaunchFailed { message, wall: false } = attached.end().await else {
            panic!("a failed launch")
        };
        assert!(message.contains(program) || message.contains("exit code 1"), "{message}");
        let gone =
            session.ledger.values().any(|w| matches!(w, WorkerRecord::ClaudeGone { had_started: false, .. }));
        assert!(gone);
        session.ended().await;
    }
}

/// `HOLD_SECONDS` sets another time. Every clock of Claude Code that is known to cut a turn runs out within 620 s.
#[tokio::test(flavor = "current_thread")]
#[ignore = "it holds a turn for 25 minutes"]
async fn a_turn_is_held_for_as_long_as_it_takes() {
    let seconds = std::env::var("HOLD_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1500);
    let mut session = Session::new(claude_code());
    session.start();
    let mut attached = session.attach().await;
    let run = attached.begin("Take your time.").await;
    let turn = attached.turn().await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    attached.deliver(text(turn.turn_id, "Here it is.")).await;
    assert_eq!(attached.until(run_end).await, (run, RunOutcome::Finished));
    attached.send(ToWorker::Stop(StopReason::Stopped)).await;
    assert_eq!(attached.end().await, EndReason::Stopped);
    let opened = session.ledger.values().filter(|what| matches!(what, WorkerRecord::TurnOpened(_))).count();
    assert_eq!(opened, 1, "it was one turn all along");
    session.ended().await;
}
