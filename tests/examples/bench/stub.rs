//! A model and a tool server that answer at once and remember nothing.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Instant,
};

use serde_json::{Value, json};

/// What the stub answers the waiting request with.
pub(crate) enum Answer {
    /// Text alone.
    Text,
    /// A call of Read, whose result will be this.
    Call { result: String },
}

/// The stub, on a port of its own until the program ends.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    /// A model request came in whole.
    pub(crate) requests: mpsc::Receiver<Instant>,
    /// What to answer it with.
    pub(crate) answers: mpsc::Sender<Answer>,
    /// An answer of text alone is out.
    pub(crate) ended: mpsc::Receiver<()>,
}

struct Shared {
    requests: mpsc::Sender<Instant>,
    answers: Mutex<mpsc::Receiver<Answer>>,
    ended: mpsc::Sender<()>,
    result: Mutex<String>,
}

impl Stub {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (request_sender, requests) = mpsc::channel();
        let (answers, answer_receiver) = mpsc::channel();
        let (end_sender, ended) = mpsc::channel();
        let shared = Arc::new(Shared {
            requests: request_sender,
            answers: Mutex::new(answer_receiver),
            ended: end_sender,
            result: Mutex::default(),
        });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, requests, answers, ended }
    }
}

/// One connection: requests one after another, until something on it fails.
fn serve(stream: TcpStream, shared: &Shared) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (head, body) = request(&mut reader)?;
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        if method == "POST" && path.starts_with("/mcp") {
            let message: Value = serde_json::from_slice(&body).ok()?;
            match tool_answer(&message, shared) {
                Some(answer) => {
                    respond(&mut writer, "200 OK", "application/json", answer.to_string().as_bytes())?;
                }
                None => respond(&mut writer, "202 Accepted", "application/json", b"")?,
            }
        } else if method == "POST" && path.starts_with("/v1/messages?") {
            shared.requests.send(Instant::now()).ok()?;
            let answer = shared.answers.lock().ok()?.recv().ok()?;
            // In place before Claude Code can ask for it.
            if let Answer::Call { result } = &answer {
                shared.result.lock().ok()?.clone_from(result);
            }
            respond(&mut writer, "200 OK", "text/event-stream", events(&answer).as_bytes())?;
            if matches!(answer, Answer::Text) {
                shared.ended.send(()).ok()?;
            }
        } else if method == "HEAD" {
            respond(&mut writer, "200 OK", "text/plain", b"")?;
        } else {
            respond(&mut writer, "405 Method Not Allowed", "text/plain", b"")?;
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn respond(writer: &mut TcpStream, status: &str, kind: &str, body: &[u8]) -> Option<()> {
    let mut bytes =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len())
            .into_bytes();
    bytes.extend_from_slice(body);
    writer.write_all(&bytes).ok()
}

fn tool_answer(message: &Value, shared: &Shared) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "gateway", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "Read", "description": "Read a file", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
            "_meta": {"anthropic/maxResultSizeChars": 200_000},
        }]}),
        _ => json!({"content": [{"type": "text", "text": shared.result.lock().ok()?.as_str()}]}),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn events(answer: &Answer) -> String {
    let (block, delta, reason) = match answer {
        Answer::Text => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": "done"}), "end_turn")
        }
        Answer::Call { .. } => (
            json!({
                "type": "tool_use", "id": format!("toolu_{}", uuid::Uuid::new_v4().simple()),
                "name": "mcp__gateway__Read", "input": {},
            }),
            json!({"type": "input_json_delta", "partial_json": "{\"file_path\":\"/x\"}"}),
            "tool_use",
        ),
    };
    let message = json!({
        "id": format!("msg_{}", uuid::Uuid::new_v4().simple()), "type": "message", "role": "assistant",
        "model": "chatgpt-main", "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]
    .iter()
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
    .collect()
}
