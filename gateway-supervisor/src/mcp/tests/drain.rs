//! Going down: every wait returns its view at once, commits are finished, and nothing is left open.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::rig::{LEGACY, Rig, SOON, Script, read_answer, until};
use crate::mcp::{
    config::{Bounds, DoorConfig, ResponseMode},
    server::{Door, ServeError},
    token::Bearer,
};

async fn send(rig: &Rig, id: &str) -> TcpStream {
    let arguments = json!({"native_session_id": id, "lease_id": "l", "wait_seconds": 50});
    let params = json!({"name": "native_session_status", "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let mut stream = rig.connect().await;
    stream.write_all(rig.head("POST /mcp", Some(body.len()), &[]).as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn waits_return_a_view_and_the_door_closes() {
    for response in [ResponseMode::Json, ResponseMode::Sse] {
        let mut rig = Rig::with(DoorConfig { response, ..DoorConfig::default() }).await;
        let mut idle = rig.connect().await;
        let kept = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        rig.on(&mut idle, ("POST /mcp", kept.as_bytes()), &[]).await;
        let mut waits = [send(&rig, "wait").await, send(&rig, "wait").await];
        until("both wait", || rig.script.waiting() == 2).await;
        rig.drain.cancel();
        for stream in &mut waits {
            let answer = timeout(SOON, read_answer(stream)).await.unwrap();
            assert_eq!(answer.json()["result"]["structuredContent"]["native_session_id"], "wait");
        }
        rig.closed().await;
        assert_eq!(timeout(SOON, idle.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
        assert!(TcpStream::connect(rig.address).await.is_err());
    }
}

#[tokio::test]
async fn a_commit_under_way_is_finished_and_answered() {
    let mut rig = Rig::new().await;
    rig.script.commit_for(Duration::from_millis(200));
    let mut stream = send(&rig, "s").await;
    until("it began", || rig.script.calls().len() == 1).await;
    let left = send(&rig, "s").await;
    until("both began", || rig.script.calls().len() == 2).await;
    drop(left);
    rig.drain.cancel();
    assert_eq!(timeout(SOON, read_answer(&mut stream)).await.unwrap().status, 200);
    rig.closed().await;
    assert_eq!(rig.script.committed(), 2);
}

#[tokio::test]
async fn what_hangs_is_cut_when_the_time_is_over() {
    let bounds = Bounds { drain: Duration::from_millis(100), ..Bounds::default() };
    let mut rig = Rig::with(DoorConfig { bounds, ..DoorConfig::default() }).await;
    let _hanging = send(&rig, "hang").await;
    let mut half = rig.connect().await;
    half.write_all(b"POST /mcp HT").await.unwrap();
    until("it began", || rig.script.committed() == 1).await;
    rig.drain.cancel();
    rig.closed().await;
}

#[tokio::test]
async fn only_loopback_is_listened_on() {
    let state = tempfile::tempdir().unwrap();
    let bearer = Arc::new(Bearer::open(state.path()).unwrap());
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let door = Door::new(Script::default(), bearer, DoorConfig::default(), CancellationToken::new());
    let refused = timeout(SOON, door.serve(listener)).await.unwrap();
    assert!(matches!(refused, Err(ServeError::NotLoopback(_))));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_hundred_connections_leave_no_descriptor() {
    let mut rig = Rig::new().await;
    // Sockets of the door's own port: other tests of this process have theirs.
    let port = format!(":{:04X} ", rig.address.port());
    let open = || {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        table.lines().filter(|line| line.contains(&port) && line.contains(" 01 ")).count()
    };
    for round in 0..200 {
        let list = rig.rpc(LEGACY, "tools/list", Value::Object(Default::default())).await;
        assert_eq!(list.status, 200, "{round}");
    }
    until("all are closed", || open() == 0).await;
    rig.drain.cancel();
    rig.closed().await;
}
