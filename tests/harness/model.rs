//! A local server that speaks the Messages API as a sub-session's model would, by a script.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// What the model answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Text alone: the end of the task.
    Text(String),
    /// Calls of tools, by their own names.
    Calls(Vec<(String, Value)>),
    /// This status and no message.
    Status(u16),
    /// A stream that says that the model refuses.
    Refusal,
    /// Bytes that are no stream of events, said to be one.
    Garbage,
    /// A page.
    Page,
    /// Nothing, for as long as the connection lives.
    Silence,
}

/// A request that came in.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The path with its query.
    pub path: String,
    /// The head, whole.
    pub head: String,
    /// The body.
    pub body: Value,
}

#[derive(Debug, Default)]
struct Shared {
    answers: Mutex<VecDeque<Answer>>,
    more: Condvar,
    asked: Mutex<Vec<Asked>>,
}

/// The server, on a port of its own until the test ends.
#[derive(Debug, Clone)]
pub struct Model {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Model {
    /// Starts it with what it is to answer first. Without an answer a request waits for one.
    ///
    /// # Panics
    /// Where there is no port.
    #[must_use]
    pub fn with(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let model = Self { address, shared: Arc::clone(&shared) };
        answers.iter().for_each(|answer| model.answer(answer.clone()));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &shared));
            }
        });
        model
    }

    /// Adds an answer.
    ///
    /// # Panics
    /// Where a thread of the server panicked.
    pub fn answer(&self, answer: Answer) {
        self.shared.answers.lock().expect("a lock").push_back(answer);
        self.shared.more.notify_all();
    }

    /// Its address as a setting.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked so far.
    ///
    /// # Panics
    /// Where a thread of the server panicked.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().expect("a lock").clone()
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let (mut head, mut length, mut path) = (String::new(), 0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if path.is_empty() {
                line.split(' ').nth(1)?.clone_into(&mut path);
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        shared.asked.lock().ok()?.push(Asked { path, head, body });
        let answer = {
            let mut answers = shared.answers.lock().ok()?;
            loop {
                if let Some(answer) = answers.pop_front() {
                    break answer;
                }
                answers = shared.more.wait(answers).ok()?;
            }
        };
        let (status, kind, text) = written(answer)?;
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", text.len());
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes())).ok()?;
    }
}

fn written(answer: Answer) -> Option<(u16, &'static str, String)> {
    let (blocks, reason): (Vec<Value>, _) = match answer {
        Answer::Text(text) => (vec![json!({"type": "text", "text": text})], "end_turn"),
        Answer::Refusal => (vec![json!({"type": "text", "text": ""})], "refusal"),
        Answer::Calls(calls) => {
            let calls = calls.into_iter().enumerate().map(|(index, (name, input))| {
                json!({"type": "tool_use", "id": format!("call_{index}"), "name": format!("mcp__gateway__{name}"), "input": input})
            });
            (calls.collect(), "tool_use")
        }
        Answer::Status(status) => {
            let body = json!({"type": "error", "error": {"type": "x", "message": "no"}});
            return Some((status, "application/json", body.to_string()));
        }
        Answer::Garbage => {
            return Some((200, "text/event-stream", "\u{1}not an event\n\ndata: {{{\n\n".into()));
        }
        Answer::Page => return Some((200, "text/html", "<html>hello</html>".into())),
        Answer::Silence => loop {
            thread::sleep(Duration::from_secs(3_600));
        },
    };
    Some((200, "text/event-stream", stream(&blocks, reason)))
}

fn stream(blocks: &[Value], reason: &str) -> String {
    let mut text = String::new();
    let mut say = |event: Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        text.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    };
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    say(json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    }}));
    for (index, block) in blocks.iter().enumerate() {
        let mut begin = block.clone();
        let delta = match block["type"].as_str() {
            Some("tool_use") => {
                begin["input"] = json!({});
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
            }
            _ => {
                begin["text"] = json!("");
                json!({"type": "text_delta", "text": block["text"]})
            }
        };
        say(json!({"type": "content_block_start", "index": index, "content_block": begin}));
        say(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        say(json!({"type": "content_block_stop", "index": index}));
    }
    say(
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": usage}),
    );
    say(json!({"type": "message_stop"}));
    text
}
