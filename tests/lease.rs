//! (L1) The right to drive a session: granted, renewed, rotated, run out.

use std::fs;

use serde_json::json;
use tests::{Gateway, Session, key};

#[test]
fn a_lease_that_runs_out_ends_the_process_and_not_the_session() {
    let gateway = Gateway::with(&[("CLAUDE_TOOLS_LEASE_SECONDS", "3")]);
    let mut session = Session::start(&gateway.client, &gateway.work, "first");
    assert!(!gateway.runners().is_empty());
    gateway.wait_for_no_runners();
    let expired = gateway.client.refused("native_session_status", &session.arguments(&json!({})));
    assert_eq!(expired.code, "lease_expired");
    assert!(expired.body["next"].as_str().unwrap().contains("native_session_recover"), "{:?}", expired.body);
    let recovered = session.recover(&key(), 0).unwrap();
    assert_eq!((&recovered["status"], &recovered["runtime_attached"]), (&json!("idle"), &json!(false)));
    assert_eq!(recovered["current_run"]["outcome"], "lost");
    session.go_on("again");
    assert_eq!(session.finish("ok"), "ok");
}

#[test]
fn the_worker_keeps_to_the_lease_when_the_supervisor_never_returns() {
    let mut gateway = Gateway::with(&[("CLAUDE_TOOLS_LEASE_SECONDS", "3")]);
    let _session = Session::start(&gateway.client, &gateway.work, "p");
    gateway.kill();
    assert!(!gateway.runners().is_empty(), "the worker went with its supervisor");
    gateway.wait_for_no_runners();
}

#[test]
fn a_waiting_call_keeps_the_lease() {
    let gateway = Gateway::with(&[("CLAUDE_TOOLS_LEASE_SECONDS", "3")]);
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let turn = session.turn()["turn_id"].clone();
    let claude = gateway.claude_code();
    claude.suspend();
    // Claude Code does not get on, so the call waits for the next turn, longer than the lease holds.
    let reply = json!({
        "turn_id": turn, "reply_id": key(), "wait_seconds": 7,
        "tool_calls": [{"name": "FindFiles", "input": {}}],
    });
    let waited = session.call("native_session_reply_and_wait", &reply).unwrap();
    assert_eq!((&waited["status"], &waited["pending_turn"]), (&json!("running"), &json!(null)));
    claude.resume();
    assert_eq!(session.turn()["sequence"], 2);
    assert_eq!(session.finish("still here"), "still here");
}

#[test]
fn a_rotated_lease_drives_no_more() {
    let gateway = Gateway::start();
    fs::write(gateway.work.join("f"), "x").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let old = session.arguments(&json!({}));
    let id = key();
    let rotated = session.recover(&id, 0).unwrap()["lease_id"].clone();
    assert_ne!(rotated, old["lease_id"]);
    assert_eq!(gateway.client.refused("native_session_status", &old).code, "lease_stale");
    let again = session.recover(&id, 0).unwrap();
    assert_eq!((&again["lease_id"], &again["replay"]), (&rotated, &json!(true)));
    assert!(again.get("recovery_token").is_none_or(serde_json::Value::is_null));
    assert_eq!(session.act(&[("Read", json!({"file_path": gateway.work.join("f")}))]).len(), 1);
}

#[test]
fn only_the_recovery_token_recovers() {
    let gateway = Gateway::start();
    let session = Session::start(&gateway.client, &gateway.work, "p");
    let other = Session::start(&gateway.client, &gateway.work, "q");
    for token in ["wrong", "", &session.recovery_token[1..], &other.recovery_token] {
        let refused = gateway.client.refused(
            "native_session_recover",
            &json!({"native_session_id": session.id, "recovery_token": token, "recovery_id": key()}),
        );
        assert!(
            ["recovery_denied", "invalid_argument"].contains(&refused.code.as_str()),
            "{token}: {refused:?}"
        );
        assert!(!refused.body.to_string().contains(&session.recovery_token));
    }
}
