use std::convert::Infallible;

use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use protocol::{
    action::Action,
    profile::{Profile, SubagentPolicy},
    secret::Secret,
    wire::to_supervisor::WorkerRecord,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc::UnboundedReceiver,
};

use super::*;
use crate::{
    executor::{
        authorize::Authority,
        fixture::{Place, action, reply, text},
    },
    link::recorder::Recorder,
};

struct House {
    endpoint: Endpoint,
    records: UnboundedReceiver<WorkerRecord>,
}

fn house(place: &Place, actions: &[Action]) -> House {
    let authority = Authority::default();
    authority.open(&reply(actions));
    let (recorder, records) = Recorder::acknowledging();
    let executor = Executor::new(authority, recorder, Tools::new(place.around()));
    let allowed = ToolName::allowed(Profile::ReadOnly, SubagentPolicy::None);
    House { endpoint: Endpoint::new(Secret::new("s".repeat(64)), &allowed, executor), records }
}

fn request(authorization: Option<&str>, body: &Value) -> Request<Full<Bytes>> {
    let mut request = Request::post("/mcp")
        .header("host", "127.0.0.1:1")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25");
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    request.body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

/// The JSON-RPC answer, from plain JSON or the last event of a stream.
async fn ask(endpoint: &Endpoint, method: &str, params: Value) -> Value {
    let bearer = format!("Bearer {}", "s".repeat(64));
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let response = endpoint.handle(request(Some(&bearer), &body)).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    answer_in(std::str::from_utf8(&body).unwrap())
}

fn answer_in(text: &str) -> Value {
    let json = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(text);
    serde_json::from_str(json).unwrap_or_else(|_| panic!("no answer in {text:?}"))
}

fn call(action: &Action) -> Value {
    json!({
        "name": action.tool.name(),
        "arguments": action.input.value(),
        "_meta": {"claudecode/toolUseId": action.action_id, "progressToken": 3},
    })
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_is_answered_without_the_secret() {
    let place = Place::build();
    let House { endpoint, .. } = house(&place, &[]);
    let secret = "s".repeat(64);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for wrong in [None, Some(""), Some("Bearer "), Some("Bearer x"), Some(secret.as_str()), Some("Basic sss")]
    {
        let response = endpoint.handle(request(wrong, &body)).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{wrong:?}");
    }
    let right = format!("bearer {secret}");
    assert_eq!(endpoint.handle(request(Some(&right), &body)).await.status(), StatusCode::OK);
}

#[tokio::test(flavor = "current_thread")]
async fn the_tools_are_listed_as_claude_code_needs_them() {
    let place = Place::build();
    let House { endpoint, .. } = house(&place, &[]);
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let hello = ask(&endpoint, "initialize", greeting).await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    let listed = ask(&endpoint, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Read", "FindFiles", "SearchText", "RunCommand"]);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], tool["name"] != "RunCommand");
        assert_eq!(tool["_meta"]["anthropic/maxResultSizeChars"], 200_000);
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_result_is_the_recorded_receipts() {
    let place = Place::build();
    let file = place.put("a.txt", "one\n");
    let good = action(ToolName::Read, &json!({"file_path": text(&file), "offset": 1}));
    let bad = action(ToolName::Read, &json!({"file_path": text(&place.work("absent"))}));
    let House { endpoint, mut records } = house(&place, &[good.clone(), bad.clone()]);
    for (action, is_error) in [(&good, false), (&bad, true)] {
        let answer = ask(&endpoint, "tools/call", call(action)).await;
        let WorkerRecord::Receipt(receipt) = records.recv().await.unwrap() else { panic!() };
        assert_eq!(receipt.action_id, action.action_id);
        assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": receipt.content}]));
        assert_eq!(answer["result"]["isError"], is_error);
        // Called again: the same receipt, no new record.
        assert_eq!(ask(&endpoint, "tools/call", call(action)).await, answer);
    }
    assert!(records.is_empty());
}

#[tokio::test(flavor = "current_thread")]
async fn everything_else_is_a_protocol_error_and_runs_nothing() {
    let place = Place::build();
    let read = action(ToolName::Read, &json!({"file_path": "/etc/hostname"}));
    let House { endpoint, records } = house(&place, std::slice::from_ref(&read));
    let mut other_input = call(&read);
    other_input["arguments"]["file_path"] = json!("/etc/passwd");
    let mut other_tool = call(&read);
    other_tool["name"] = json!("FindFiles");
    other_tool["arguments"] = json!({});
    let mut stranger = call(&read);
    stranger["_meta"]["claudecode/toolUseId"] = json!(ActionId::mint());
    let mut no_id = call(&read);
    no_id["_meta"] = json!({});
    let mut bash = call(&read);
    bash["name"] = json!("Bash");
    let mut run = call(&read);
    run["name"] = json!("RunCommand");
    run["arguments"] = json!({"argv": ["true"]});
    for params in [other_input, other_tool, stranger, no_id, bash, run, json!({"name": "Read"})] {
        let answer = ask(&endpoint, "tools/call", params.clone()).await;
        assert!(
            answer["error"]["message"].as_str().unwrap().contains("nothing was run"),
            "{params} {answer}"
        );
    }
    for method in ["prompts/list", "resources/list", "completion/complete", "logging/setLevel", "made/up"] {
        let answer = ask(&endpoint, method, json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}, "level": "info"})).await;
        assert!(answer["error"]["code"].is_i64(), "{method} {answer}");
    }
    assert!(records.is_empty());
}

#[tokio::test(flavor = "current_thread")]
async fn over_http_an_answer_is_a_stream_of_events() {
    let place = Place::build();
    let file = place.put("a.txt", "");
    let read = action(ToolName::Read, &json!({"file_path": text(&file)}));
    let House { endpoint, .. } = house(&place, std::slice::from_ref(&read));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service_fn(|request| {
            let endpoint = endpoint.clone();
            async move { Ok::<_, Infallible>(endpoint.handle(request).await) }
        });
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
    });
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call(&read)}).to_string();
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        "s".repeat(64),
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("content-type: text/event-stream"),
        "{answer}"
    );
    assert!(answer.contains("a.txt") && answer.contains("data: "), "{answer}");
    server.await.unwrap().unwrap();
}
