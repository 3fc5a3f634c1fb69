//! [X4, L1, L4, L5] Nothing that a command starts outlives it, its time, its session, its worker or the lease; and what a
//! crash leaves in doubt is said and never run again.
//!
//! `GATEWAY_REAPS` sets how many commands are cut off at random moments.

use std::{env, fs, path::PathBuf, thread, time::Duration};

use serde_json::{Value, json};
use tests::{Gateway, Session, key, processes, until};

const PATIENCE: Duration = Duration::from_secs(60);

/// Forks, daemonizes in several ways, ignores signals, and says when all of it runs.
const HYDRA: &str = "trap '' TERM INT HUP QUIT; \
    (setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' >/dev/null 2>&1 </dev/null &); \
    (nohup sh -c 'sh -c \"sleep 100000\" & sleep 100000' >/dev/null 2>&1 &); \
    sh -c 'while :; do sleep 100000; done' & echo one >> \"$TMPDIR/begun\"; ";

/// Cut off at random: enough to hit each phase, `scripts/bench` runs two hundred.
const REAPS: u64 = 6;

/// Processes of commands of this session.
fn commands(gateway: &Gateway, session: &Session) -> Vec<processes::Process> {
    processes::naming(&format!("{}-work/scratch/{}/home", gateway.state.display(), session.id))
}

fn scratch(gateway: &Gateway, session: &Session) -> PathBuf {
    PathBuf::from(format!("{}-work/scratch/{}", gateway.state.display(), session.id))
}

fn nothing_left(gateway: &Gateway, session: &Session) {
    let mut left = Vec::new();
    until("every process of the command is gone", PATIENCE, || {
        left = commands(gateway, session);
        left.is_empty().then_some(())
    });
}

/// Sends a reply with one command and does not wait for its end.
fn begin(gateway: &Gateway, session: &mut Session, script: &str) {
    let turn = session.turn()["turn_id"].clone();
    let call = json!({"name": "RunCommand", "input": {"argv": ["sh", "-c", script], "timeout_seconds": 600}});
    let reply = json!({"turn_id": turn, "reply_id": key(), "tool_calls": [call], "wait_seconds": 0});
    session.call("native_session_reply_and_wait", &reply).unwrap();
    let begun = scratch(gateway, session).join("tmp/begun");
    until("the command runs", PATIENCE, || begun.exists().then_some(()));
}

fn act(session: &mut Session, script: &str, seconds: u64) -> String {
    let results =
        session.act(&[("RunCommand", json!({"argv": ["sh", "-c", script], "timeout_seconds": seconds}))]);
    results[0]["content"].as_str().unwrap().to_owned()
}

#[test]
fn at_its_end_and_at_its_time_nothing_is_left() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let text = act(&mut session, &format!("{HYDRA} echo done"), 60);
    assert!(text.starts_with("exit code: 0\n"), "{text}");
    assert_eq!(commands(&gateway, &session), [], "a result came before the last process was gone");
    let text = act(&mut session, &format!("{HYDRA} sleep 100000"), 1);
    assert!(text.starts_with("timed out after 1 s"), "{text}");
    assert_eq!(commands(&gateway, &session), []);
}

#[test]
fn a_stop_ends_a_command_and_all_it_started() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    begin(&gateway, &mut session, &format!("{HYDRA} sleep 100000"));
    assert!(commands(&gateway, &session).len() > 3);
    assert_eq!(session.stop()["status"], "stopped");
    assert_eq!(commands(&gateway, &session), []);
    gateway.wait_for_no_runners();
    assert!(!scratch(&gateway, &session).exists());
}

#[test]
fn a_command_that_a_crash_cut_off_is_in_doubt_told_and_never_run_again() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    begin(&gateway, &mut session, &format!("{HYDRA} sleep 100000"));
    let runners = gateway.runners();
    runners.iter().find(|process| process.is_worker()).unwrap().kill();
    nothing_left(&gateway, &session);
    session.wait_for_status("recovery_required");
    assert_eq!(session.view["recovery_required"], true);
    let go_on = session.arguments(&json!({"prompt": "q", "idempotency_key": key()}));
    assert_eq!(gateway.client.refused("native_session_continue", &go_on).code, "recovery_required");
    let view = session.recover(&key(), 20).unwrap();
    assert_eq!((&view["status"], &view["recovery_required"]), (&json!("idle"), &json!(false)), "{view}");
    session.go_on("what now?");
    let turn = session.turn();
    let recovered = turn["recovered_actions"].as_array().unwrap();
    assert_eq!(recovered.len(), 1, "{turn}");
    assert_eq!(
        (&recovered[0]["tool"], &recovered[0]["outcome"]),
        (&json!("RunCommand"), &json!("indeterminate"))
    );
    assert!(act(&mut session, "cat $TMPDIR/begun", 60).contains("one\n"));
    let begun = fs::read_to_string(scratch(&gateway, &session).join("tmp/begun")).unwrap();
    assert_eq!(begun, "one\n", "a command was run again");
}

#[test]
fn a_supervisor_that_is_gone_holds_up_no_command_and_the_lease_ends_it() {
    let mut gateway = Gateway::with(&[("CLAUDE_TOOLS_LEASE_SECONDS", "5")]);
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    begin(&gateway, &mut session, &format!("{HYDRA} sleep 100000"));
    gateway.kill();
    assert!(!commands(&gateway, &session).is_empty());
    nothing_left(&gateway, &session);
    gateway.wait_for_no_runners();
    gateway.start_again();
    session.recover(&key(), 20).unwrap();
    session.stop();
    assert!(!scratch(&gateway, &session).exists());
}

#[test]
fn whoever_is_killed_whenever_nothing_is_left() {
    let reaps = env::var("GATEWAY_REAPS").ok().and_then(|text| text.parse().ok()).unwrap_or(REAPS);
    let mut gateway = Gateway::start();
    let mut moment = u64::from(std::process::id());
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    for round in 0..reaps {
        let turn = session.turn()["turn_id"].clone();
        let script = format!("{HYDRA} sleep 100000");
        let call =
            json!({"name": "RunCommand", "input": {"argv": ["sh", "-c", script], "timeout_seconds": 600}});
        let reply = json!({"turn_id": turn, "reply_id": key(), "tool_calls": [call], "wait_seconds": 0});
        session.call("native_session_reply_and_wait", &reply).unwrap();
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_micros((moment >> 33) % 400_000));
        let worker = gateway.runners().into_iter().find(processes::Process::is_worker).unwrap();
        match round % 3 {
            0 => worker.kill(),
            // The keepers carry no mark of the session: they are the worker's own children.
            1 => processes::children(worker.pid).iter().for_each(processes::Process::kill),
            _ => {
                gateway.kill();
                worker.kill();
                nothing_left(&gateway, &session);
                gateway.start_again();
            }
        }
        nothing_left(&gateway, &session);
        session = again(&gateway, session);
    }
    session.stop();
    gateway.wait_for_no_runners();
}

/// A session with a pending turn, whatever became of the one before.
fn again(gateway: &Gateway, mut session: Session) -> Session {
    let settled = |view: &Value| {
        !view["pending_turn"].is_null()
            || ["idle", "recovery_required", "failed"].iter().any(|status| view["status"] == *status)
    };
    session.recover(&key(), 20).unwrap();
    until("the session settles", PATIENCE, || {
        (settled(&session.view) || settled(session.status(5))).then_some(())
    });
    if session.view["status"] == "recovery_required" {
        session.recover(&key(), 20).unwrap();
    }
    if session.view["pending_turn"].is_null() {
        session.go_on("on");
    }
    nothing_left(gateway, &session);
    session
}
