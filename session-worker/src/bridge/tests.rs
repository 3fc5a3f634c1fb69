//! The bridge over real connections, as Claude Code uses it.

use std::net::SocketAddr;

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use protocol::{
    id::ReplyId,
    recorded::{Ack, RecordId, Recordable},
    secret::Secret,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;

const KEY: &str = "the-secret";

/// A bridge that is served, and where its turns come out.
async fn served() -> (Bridge, mpsc::UnboundedReceiver<Turn>, SocketAddr) {
    let (bridge, turns) = Bridge::new(Secret::new(KEY.to_owned()), Authority::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = bridge.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let bridge = answering.clone();
            let service = service_fn(move |request| {
                let bridge = bridge.clone();
                async move { Ok::<_, Infallible>(bridge.handle(request).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (bridge, turns, address)
}

/// A request on a connection of its own.
async fn ask(address: SocketAddr, line: &str, key: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{line} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nconnection: close\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until `words` have come.
async fn hear(stream: &mut TcpStream, words: &str) -> String {
    let mut heard = Vec::new();
    while memchr::memmem::find(&heard, words.as_bytes()).is_none() {
        let mut piece = [0; 1024];
        let got = timeout(Duration::from_secs(30), stream.read(&mut piece)).await.unwrap().unwrap();
        assert!(got > 0, "no {words:?} in {}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..got]);
    }
    String::from_utf8(heard).unwrap()
}

async fn rest(mut stream: TcpStream) -> String {
    let mut heard = String::new();
    timeout(Duration::from_secs(30), stream.read_to_string(&mut heard)).await.unwrap().unwrap();
    heard
}

fn conversation(words: &str, stream: bool) -> String {
    json!({
        "model": "chatgpt-main", "messages": [{"role": "user", "content": words}],
        "tools": [{"name": "mcp__gateway__Read"}], "max_tokens": 32000, "stream": stream,
    })
    .to_string()
}

fn recorded(turn_id: TurnId, text: &str) -> Recorded<Reply> {
    let reply_id: ReplyId = "r".parse().unwrap();
    let reply = Reply { reply_id, turn_id, text: Some(text.to_owned()), actions: vec![] };
    let ack = Ack::mint(RecordId { launch: 0, number: 1 }, reply.record_digest());
    Recorded::new(reply, ack).unwrap()
}

const MESSAGES: &str = "POST /v1/messages?beta=true";

#[tokio::test(flavor = "current_thread")]
async fn a_turn_is_one_turn_however_often_it_is_asked_for() {
    let (bridge, mut turns, address) = served().await;
    bridge.begin(RunId::mint());
    let mut first = ask(address, MESSAGES, KEY, &conversation("go", true)).await;
    // The headers and the start come before anybody knows the answer.
    let heard = hear(&mut first, "event: ping").await;
    assert!(heard.starts_with("HTTP/1.1 200") && heard.contains("text/event-stream"));
    assert!(heard.contains("event: message_start"));
    let turn = turns.recv().await.unwrap();
    // It is sent again, once whole, and the first connection breaks.
    let mut second = ask(address, MESSAGES, KEY, &conversation("go", true)).await;
    hear(&mut second, "event: ping").await;
    let mut whole = ask(address, MESSAGES, KEY, &conversation("go", false)).await;
    hear(&mut whole, "application/json").await;
    drop(first);
    assert_eq!(bridge.deliver(recorded(turn.turn_id, "the answer")), Delivered::Released);
    assert_eq!(bridge.deliver(recorded(turn.turn_id, "the answer")), Delivered::NotAwaited);
    let heard = rest(second).await;
    assert!(heard.contains("the answer") && heard.contains("event: message_stop"), "{heard}");
    let heard = rest(whole).await;
    assert!(heard.contains("\"text\":\"the answer\"") && heard.contains("end_turn"), "{heard}");
    // It broke just after its answer: the repetition gets the same answer.
    let again = rest(ask(address, MESSAGES, KEY, &conversation("go", true)).await).await;
    assert!(again.contains("the answer"));
    assert!(turns.try_recv().is_err(), "there was one turn");
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_asked_by_the_way_is_answered_here() {
    let (bridge, mut turns, address) = served().await;
    bridge.begin(RunId::mint());
    for stream in [true, false] {
        let body =
            json!({"model": "m", "messages": [{"role": "user", "content": "title?"}], "stream": stream});
        let heard = rest(ask(address, MESSAGES, KEY, &body.to_string()).await).await;
        assert!(heard.starts_with("HTTP/1.1 200") && heard.contains("OK") && heard.contains("end_turn"));
    }
    let count = rest(ask(address, "POST /v1/messages/count_tokens?beta=true", KEY, "{}").await).await;
    assert!(count.ends_with("{\"input_tokens\":1}"));
    assert!(rest(ask(address, "HEAD /api/hello", "", "").await).await.starts_with("HTTP/1.1 200"));
    assert!(turns.try_recv().is_err());
}

#[tokio::test(flavor = "current_thread")]
async fn what_can_not_be_answered_is_refused_in_the_models_own_words() {
    let (_bridge, mut turns, address) = served().await;
    for (line, key, body, status, kind) in [
        (MESSAGES, "wrong", "{}", "401", "authentication_error"),
        (MESSAGES, "", "{}", "401", "authentication_error"),
        ("POST /v1/messages/count_tokens", "wrong", "{}", "401", "authentication_error"),
        (MESSAGES, KEY, "{\"messages\":[", "400", "invalid_request_error"),
        (MESSAGES, KEY, "nonsense", "400", "invalid_request_error"),
        ("GET /v1/models", KEY, "", "404", "not_found_error"),
        ("GET /", KEY, "", "404", "not_found_error"),
    ] {
        let heard = rest(ask(address, line, key, body).await).await;
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{line} {body}: {heard}");
        let (_, json) = heard.split_once("\r\n\r\n").unwrap();
        let error: Value = serde_json::from_str(json).unwrap();
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!(kind)), "{heard}");
    }
    assert!(turns.try_recv().is_err());
}

#[tokio::test(flavor = "current_thread")]
async fn a_run_that_is_over_lets_its_connections_go() {
    let (bridge, mut turns, address) = served().await;
    bridge.begin(RunId::mint());
    let waiting = ask(address, MESSAGES, KEY, &conversation("go", true)).await;
    let turn = turns.recv().await.unwrap();
    bridge.end();
    assert!(rest(waiting).await.contains("event: error"));
    assert_eq!(bridge.deliver(recorded(turn.turn_id, "too late")), Delivered::NotAwaited);
    // Without a run nothing of the conversation becomes a turn.
    let heard = rest(ask(address, MESSAGES, KEY, &conversation("go", true)).await).await;
    assert!(heard.contains("end_turn"));
    assert!(turns.try_recv().is_err());
}
