//! A scripted model and tool server on one listener, spoken to by the real Claude Code.

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// What was asked, in order: method and path, and the body where it is JSON.
pub(crate) type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// Serves for the rest of the test: the first turn asks for a tool, the second ends the run.
pub(crate) fn serve(listener: TcpListener) -> Asked {
    let (asked, turn): (Asked, Arc<AtomicUsize>) = Default::default();
    let all = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (asked, turn) = (Arc::clone(&all), Arc::clone(&turn));
            // A connection that breaks shows as a run that doesn't end well.
            thread::spawn(move || drop(answer(&stream, &asked, &turn)));
        }
    });
    asked
}

fn answer(stream: &TcpStream, asked: &Asked, turn: &AtomicUsize) -> std::io::Result<()> {
    let mut input = BufReader::new(stream);
    let mut lines = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        lines.push(line);
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let request = lines[0].rsplit_once(' ').map_or(String::new(), |(request, _)| request.to_owned());
    asked.lock().unwrap().push((request.clone(), body.clone()));
    let (status, kind, text) = reply(&request, &body, turn);
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    let mut output = stream;
    output.write_all(head.as_bytes())?;
    output.write_all(text.as_bytes())
}

fn reply(request: &str, body: &Value, turn: &AtomicUsize) -> (&'static str, &'static str, String) {
    if request.starts_with("POST /mcp") {
        return tools(body);
    }
    if request.starts_with("POST /v1/messages?") || request == "POST /v1/messages" {
        let call = ("mcp__gateway__Look", json!({"at": "it"}));
        let content = if turn.fetch_add(1, Ordering::SeqCst) == 0 { Some(call) } else { None };
        return ("200 OK", "text/event-stream", stream(content));
    }
    ("404 Not Found", "text/plain", String::new())
}

fn tools(body: &Value) -> (&'static str, &'static str, String) {
    let result = match body["method"].as_str().unwrap_or_default() {
        "initialize" => {
            json!({"protocolVersion": body["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "gateway", "version": "0"}})
        }
        "tools/list" => json!({"tools": [{"name": "Look", "description": "looks",
            "inputSchema": {"type": "object", "properties": {"at": {"type": "string"}}}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "seen"}]}),
        _ => return ("202 Accepted", "text/plain", String::new()),
    };
    let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
    ("200 OK", "application/json", answer.to_string())
}

fn stream(call: Option<(&str, Value)>) -> String {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "chatgpt-main",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    let (start, delta, stop) = match call {
        Some((name, input)) => (
            json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            "tool_use",
        ),
        None => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": "all seen"}),
            "end_turn",
        ),
    };
    [
        ("message_start", json!({"message": message})),
        ("content_block_start", json!({"index": 0, "content_block": start})),
        ("content_block_delta", json!({"index": 0, "delta": delta})),
        ("content_block_stop", json!({"index": 0})),
        (
            "message_delta",
            json!({"delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 1}}),
        ),
        ("message_stop", json!({})),
    ]
    .into_iter()
    .map(|(kind, mut event)| {
        event["type"] = kind.into();
        format!("event: {kind}\ndata: {event}\n\n")
    })
    .collect()
}
