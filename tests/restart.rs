//! [L2, L3, M9] The supervisor comes back and finds its workers; what is gone is said to be gone.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::json;
use tests::{Gateway, Session, key, until};

#[test]
fn claude_code_notices_nothing_of_a_killed_supervisor() {
    let mut gateway = Gateway::start();
    fs::write(gateway.work.join("f"), "hello").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    session.act(&[("Read", json!({"file_path": gateway.work.join("f")}))]);
    let (turn, lease) = (session.turn()["turn_id"].clone(), session.view["lease_id"].clone());
    let before = gateway.runners();
    assert!(before.iter().any(tests::processes::Process::is_worker), "{before:?}");
    gateway.restart();
    assert_eq!(gateway.runners(), before, "a process was replaced");
    let view = session.recover(&key(), 20).unwrap();
    assert_eq!(view["pending_turn"]["turn_id"], turn);
    assert_eq!((&view["runtime_attached"], &view["recovery_required"]), (&json!(true), &json!(false)));
    assert_ne!(view["lease_id"], lease);
    let read = session.act(&[("Read", json!({"file_path": gateway.work.join("f")}))]);
    assert!(read[0]["content"].as_str().unwrap().contains("hello"));
    assert_eq!(session.finish("bye"), "bye");
}

#[test]
fn a_reply_given_just_before_the_crash_is_carried_out_once() {
    let mut gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let turn = session.turn()["turn_id"].clone();
    let reply = json!({"turn_id": turn, "reply_id": key(), "text": "final words", "wait_seconds": 0});
    session.call("native_session_reply_and_wait", &reply).unwrap();
    gateway.restart();
    session.recover(&key(), 0).unwrap();
    assert_eq!(session.call("native_session_reply_and_wait", &reply).unwrap()["replay"], true);
    session.wait_for_status("idle");
    assert_eq!(session.view["last_result"]["text"], "final words");
}

#[test]
fn a_dead_worker_is_said_to_be_dead_and_the_session_goes_on() {
    let gateway = Gateway::start();
    fs::write(gateway.work.join("f"), "hello").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "first");
    session.act(&[("Read", json!({"file_path": gateway.work.join("f")}))]);
    let claude = session.text("claude_session_id").to_owned();
    gateway.runners().iter().for_each(tests::processes::Process::kill);
    until("the loss is noticed", Duration::from_secs(30), || {
        (session.status(2)["runtime_attached"] == false).then_some(())
    });
    assert!(session.view["pending_turn"].is_null());
    assert_eq!(session.view["current_run"]["outcome"], "lost");
    session.go_on("second");
    let turn = session.turn();
    assert_eq!(session.text("claude_session_id"), claude);
    assert_eq!(turn["prompt"], "second");
    let known = &turn["recovered_actions"][0];
    assert_eq!((&known["tool"], &known["outcome"]), (&json!("Read"), &json!("applied")), "{turn}");
    assert_eq!(session.finish("ok"), "ok");
}

#[test]
fn a_worker_that_died_with_the_supervisor_is_not_faked() {
    let mut gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "first");
    gateway.kill();
    gateway.runners().iter().for_each(tests::processes::Process::kill);
    gateway.start_again();
    let view = session.recover(&key(), 0).unwrap();
    assert_eq!((&view["runtime_attached"], &view["pending_turn"]), (&json!(false), &json!(null)));
    session.go_on("second");
    assert_eq!(session.finish("ok"), "ok");
}

#[test]
fn sigterm_ends_every_wait_and_leaves_the_workers() {
    let mut gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let turn = session.turn()["turn_id"].clone();
    let (before, claude) = (gateway.runners(), gateway.claude_code());
    claude.suspend();
    let reply = json!({
        "turn_id": turn, "reply_id": key(), "wait_seconds": 50,
        "tool_calls": [{"name": "FindFiles", "input": {}}],
    });
    let (client, arguments) = (gateway.client.clone(), session.arguments(&reply));
    let waiting = thread::spawn(move || client.call("native_session_reply_and_wait", &arguments));
    until("the reply is taken", Duration::from_secs(20), || {
        (session.status(0)["status"] == "running").then_some(())
    });

    let asked = Instant::now();
    assert_eq!(gateway.terminate(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(20), "a wait held the drain up");
    let view = waiting.join().unwrap().unwrap();
    assert_eq!(view["status"], "running", "a wait that is cut short gives a normal view");
    assert_eq!(gateway.runners(), before);
    claude.resume();
    gateway.start_again();
    session.recover(&key(), 20).unwrap();
    assert_eq!(session.turn()["sequence"], 2);
    assert_eq!(session.finish("bye"), "bye");
}
