//! [M6, M9] A call that is made again, at once, later or after a crash, has one effect.

use std::{collections::HashSet, fs, thread};

use serde_json::{Value, json};
use tests::{
    Gateway, Session,
    http::{self, Request},
    key, until,
};

fn start(gateway: &Gateway) -> Value {
    json!({"prompt": "p", "idempotency_key": key(), "working_directory": gateway.work, "wait_seconds": 50})
}

#[test]
fn a_start_that_is_made_again_gives_the_same_session() {
    let mut gateway = Gateway::start();
    let arguments = start(&gateway);
    let first = gateway.client.call("native_session_start", &arguments).unwrap();
    assert_eq!(first["replay"], false);
    let mut again = arguments.clone();
    again["wait_seconds"] = json!(0);
    let second = gateway.client.call("native_session_start", &again).unwrap();
    gateway.restart();
    let third = gateway.client.call("native_session_start", &arguments).unwrap();
    for replay in [&second, &third] {
        assert_eq!(replay["replay"], true);
        for field in ["native_session_id", "claude_session_id", "recovery_token", "lease_id"] {
            assert_eq!(replay[field], first[field], "{field}");
        }
    }
    let mut other = arguments;
    other["prompt"] = json!("q");
    assert_eq!(gateway.client.refused("native_session_start", &other).code, "idempotency_conflict");
    assert_eq!(gateway.ctl(&["sessions"]).json["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn many_equal_starts_at_once_make_one_session() {
    let gateway = Gateway::start();
    let arguments = start(&gateway);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (client, arguments) = (gateway.client.clone(), arguments.clone());
            thread::spawn(move || client.call("native_session_start", &arguments).unwrap())
        })
        .collect();
    let views: Vec<Value> = calls.into_iter().map(|call| call.join().unwrap()).collect();
    let ids: HashSet<_> = views.iter().map(|v| v["native_session_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(views.iter().filter(|v| v["replay"] == false).count(), 1);
    assert_eq!(gateway.runners().iter().filter(|p| p.is_worker()).count(), 1);
}

#[test]
fn a_reply_that_is_made_again_runs_nothing_twice() {
    let mut gateway = Gateway::start();
    fs::write(gateway.work.join("f"), "hello").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let turn = session.turn()["turn_id"].clone();
    let reply = json!({
        "turn_id": turn, "reply_id": key(), "wait_seconds": 50,
        "tool_calls": [{"name": "Read", "input": {"file_path": gateway.work.join("f")}}],
    });
    session.call("native_session_reply_and_wait", &reply).unwrap();
    let next = session.turn()["turn_id"].clone();
    let arguments = session.arguments(&reply);
    let again = gateway.client.call("native_session_reply_and_wait", &arguments).unwrap();
    assert_eq!((&again["replay"], &again["pending_turn"]["turn_id"]), (&json!(true), &next));

    let mut other = arguments;
    other["tool_calls"][0]["input"]["offset"] = json!(1);
    assert_eq!(gateway.client.refused("native_session_reply_and_wait", &other).code, "idempotency_conflict");

    gateway.restart();
    session.recover(&key(), 20).unwrap();
    let again = session.call("native_session_reply_and_wait", &reply).unwrap();
    assert_eq!((&again["replay"], &again["pending_turn"]["turn_id"]), (&json!(true), &next));
    assert_eq!(session.turn()["sequence"], 2);
}

#[test]
fn a_client_that_hangs_up_loses_nothing() {
    let gateway = Gateway::start();
    fs::write(gateway.work.join("f"), "hello").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let turn = session.turn()["turn_id"].clone();
    let reply = json!({
        "turn_id": turn, "reply_id": key(), "wait_seconds": 50,
        "tool_calls": [{"name": "Read", "input": {"file_path": gateway.work.join("f")}}],
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "native_session_reply_and_wait", "arguments": session.arguments(&reply)}});
    let body = message.to_string();
    let request =
        Request { method: "POST", path: "/mcp", headers: gateway.client.headers(&[]), body: body.as_bytes() };
    drop(http::send(gateway.client.address, &request).unwrap());

    let again = session.call("native_session_reply_and_wait", &reply).unwrap();
    assert_ne!(again["pending_turn"]["turn_id"], turn);
    assert_eq!(session.turn()["sequence"], 2);
    assert_eq!(session.turn()["tool_results"].as_array().unwrap().len(), 1);
}

#[test]
fn continue_and_stop_can_be_made_again() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    session.finish("done");
    let next = json!({"prompt": "q", "idempotency_key": key(), "wait_seconds": 50});
    let run = session.call("native_session_continue", &next).unwrap()["current_run"]["run_id"].clone();
    let again = session.call("native_session_continue", &next).unwrap();
    assert_eq!((&again["replay"], &again["current_run"]["run_id"]), (&json!(true), &run));

    let stop = json!({"request_id": key(), "reason": "done"});
    assert_eq!(session.call("native_session_stop", &stop).unwrap()["status"], "stopped");
    assert_eq!(session.call("native_session_stop", &stop).unwrap()["replay"], true);
    let after = session.arguments(&json!({"prompt": "r", "idempotency_key": key()}));
    assert_eq!(gateway.client.refused("native_session_continue", &after).code, "session_stopped");
}

#[test]
fn sixteen_calls_wait_for_one_session_at_once() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let turn = session.turn()["turn_id"].clone();
    let waiting: Vec<_> = (0..16)
        .map(|_| {
            let (client, arguments) =
                (gateway.client.clone(), session.arguments(&json!({"wait_seconds": 50})));
            thread::spawn(move || client.call("native_session_status", &arguments).unwrap())
        })
        .collect();
    for call in waiting {
        assert_eq!(call.join().unwrap()["pending_turn"]["turn_id"], turn, "a delivered turn stays pending");
    }
    until("the session still answers", std::time::Duration::from_secs(10), || {
        (session.status(0)["status"] == "waiting_for_gpt").then_some(())
    });
}
