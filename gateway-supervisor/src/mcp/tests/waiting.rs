//! (M9): calls that wait, clients that leave, work that panics or hangs, and bounds.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, task::JoinSet, time::timeout};

use super::rig::{LEGACY, MODERN, Rig, SOON, read_answer, request, until};
use crate::mcp::config::{Bounds, DoorConfig, ResponseMode};

fn status(id: &str) -> Value {
    json!({"native_session_id": id, "lease_id": "l", "wait_seconds": 50})
}

fn bounded(change: impl FnOnce(&mut Bounds)) -> DoorConfig {
    let mut config = DoorConfig::default();
    change(&mut config.bounds);
    config
}

/// Sends a call and gives the connection on which its answer will come.
async fn send(rig: &Rig, era: &str, params: Value) -> tokio::net::TcpStream {
    let (message, headers) = request(era, "tools/call", params);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let body = message.to_string();
    let mut stream = rig.connect().await;
    stream.write_all(rig.head("POST /mcp", Some(body.len()), &headers).as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

fn call(id: &str) -> Value {
    json!({"name": "native_session_status", "arguments": status(id)})
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_wait_and_not_the_work() {
    for response in [ResponseMode::Json, ResponseMode::Sse] {
        let rig = Rig::with(DoorConfig { response, ..DoorConfig::default() }).await;
        for (round, era) in [LEGACY, MODERN].into_iter().enumerate() {
            let stream = send(&rig, era, call("wait")).await;
            until("it waits", || rig.script.waiting() == 1).await;
            drop(stream);
            until("the wait ends", || rig.script.observed() == 2 * round + 1).await;
            // Half closed: it can't be told from one that left, and is treated as such.
            let mut stream = send(&rig, era, call("wait")).await;
            until("it waits", || rig.script.waiting() == 1).await;
            stream.shutdown().await.unwrap();
            until("the wait ends", || rig.script.observed() == 2 * round + 2).await;
        }
        // One that leaves while its commit is under way: the commit is done all the same.
        rig.script.commit_for(Duration::from_millis(300));
        let before = rig.script.committed();
        let stream = send(&rig, LEGACY, call("quick")).await;
        until("it began", || rig.script.calls().len() == before + 1).await;
        drop(stream);
        until("it is committed", || rig.script.committed() == before + 1).await;
    }
}

#[tokio::test]
async fn a_panic_and_a_hang_are_answered() {
    let hasty = Rig::with(bounded(|bounds| bounds.call = Duration::from_millis(200))).await;
    let rig = Rig::new().await;
    for era in [LEGACY, MODERN] {
        for (rig, id) in [(&rig, "panic"), (&hasty, "hang")] {
            let result = rig.call(era, "native_session_status", status(id)).await;
            assert_eq!(result["isError"], true);
            assert_eq!(result["structuredContent"]["code"], "internal", "{id}");
            assert_eq!(result["structuredContent"]["retryable"], true);
        }
        assert_eq!(rig.call(era, "native_session_status", status("fine")).await["isError"], false);
    }
}

#[tokio::test]
async fn progress_is_told_to_who_asked() {
    for response in [ResponseMode::Json, ResponseMode::Sse] {
        let mut config = bounded(|bounds| bounds.progress = Duration::from_millis(20));
        config.response = response;
        let rig = Rig::with(config).await;
        for era in [LEGACY, MODERN] {
            let mut params = call("wait");
            params["_meta"] = json!({"progressToken": "p"});
            let mut stream = send(&rig, era, params).await;
            until("it waits", || rig.script.waiting() == 1).await;
            let mut head = [0; 12];
            // The stream's head comes with the first notification, before the call is over.
            timeout(SOON, stream.peek(&mut head)).await.unwrap().unwrap();
            assert_eq!(&head, b"HTTP/1.1 200");
            rig.script.release();
            let answer = timeout(SOON, read_answer(&mut stream)).await.unwrap();
            let events = answer.events();
            let told: Vec<f64> =
                events.iter().filter_map(|event| event["params"]["progress"].as_f64()).collect();
            assert!(told.is_sorted() && (response == ResponseMode::Sse || !told.is_empty()), "{told:?}");
            assert!(events.iter().take(told.len()).all(|event| event["params"]["progressToken"] == "p"));
            assert_eq!(events.last().unwrap()["result"]["structuredContent"]["native_session_id"], "wait");
            rig.script.hold();
        }
        // Who did not ask gets one JSON object.
        rig.script.release();
        let answer = rig.rpc(LEGACY, "tools/call", call("wait")).await;
        assert_eq!(answer.events().iter().filter(|event| event["method"].is_string()).count(), 0);
    }
}

#[tokio::test]
async fn beyond_the_places_a_waiting_call_is_an_error_and_others_pass() {
    let rig = Rig::with(bounded(|bounds| bounds.waiters = 2)).await;
    let (_first, mut second) =
        (send(&rig, LEGACY, call("wait")).await, send(&rig, LEGACY, call("wait")).await);
    until("both wait", || rig.script.waiting() == 2).await;
    let result = rig.call(LEGACY, "native_session_status", status("wait")).await;
    assert_eq!(
        (&result["structuredContent"]["code"], &result["structuredContent"]["retryable"]),
        (&json!("limit_reached"), &json!(true))
    );
    let at_once = json!({"native_session_id": "s", "lease_id": "l"});
    assert_eq!(rig.call(LEGACY, "native_session_status", at_once).await["isError"], false);
    let stop = json!({"native_session_id": "s", "lease_id": "l", "request_id": "k"});
    assert_eq!(rig.call(LEGACY, "native_session_stop", stop).await["isError"], false);
    rig.script.release();
    assert_eq!(timeout(SOON, read_answer(&mut second)).await.unwrap().status, 200);
    until("the places are free", || rig.script.waiting() == 0).await;
    assert_eq!(rig.call(LEGACY, "native_session_status", status("s")).await["isError"], false);
}

#[tokio::test]
async fn beyond_the_connections_the_next_one_waits_its_turn() {
    let rig = Rig::with(bounded(|bounds| bounds.connections = 2)).await;
    let (first, _second) = (send(&rig, LEGACY, call("wait")).await, send(&rig, LEGACY, call("wait")).await);
    until("both wait", || rig.script.waiting() == 2).await;
    let mut third = send(&rig, LEGACY, call("s")).await;
    drop(first);
    assert_eq!(timeout(SOON, read_answer(&mut third)).await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_on_kept_and_fresh_connections() {
    let rig = std::sync::Arc::new(Rig::new().await);
    let mut kept = rig.connect().await;
    let mut all = JoinSet::new();
    for round in 0..40 {
        let rig = std::sync::Arc::clone(&rig);
        all.spawn(async move {
            rig.call([LEGACY, MODERN][round % 2], "native_session_status", status("s")).await
        });
    }
    for _ in 0..20 {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        assert_eq!(rig.on(&mut kept, ("POST /mcp", body.as_bytes()), &[]).await.status, 200);
    }
    for result in all.join_all().await {
        assert_eq!(result["isError"], false);
    }
    assert_eq!(rig.script.calls().len(), 40);
}
