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

use crate::tls::{Face, HOST, Heard, Tls};

/// What the model answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Text alone: the end of the task.
    Text(String),
    /// Calls of tools, by their own names.
    Calls(Vec<(String, Value)>),
    /// A stream that says that the model refuses.
    Refusal,
    /// Bytes that are no stream of events, said to be one.
    Garbage,
    /// A page.
    Page,
    /// This status with this body, which may say anything.
    Says(u16, String),
    /// A redirect to this place.
    Moved(String),
    /// A stream that fails after its beginning, as the Messages API says it.
    Breaks,
    /// The beginning of a stream, and its end in good order.
    Half,
    /// The beginning of a stream, and no more on this connection.
    Cut,
    /// A stream without an event.
    Empty,
    /// A stream that never ends.
    Endless,
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

#[derive(Default)]
struct Shared {
    answers: Mutex<VecDeque<Answer>>,
    more: Condvar,
    asked: Mutex<Vec<Asked>>,
    tls: Option<Tls>,
    /// What the next connections find.
    faces: Mutex<VecDeque<Face>>,
    /// Every byte that came in, as it was on the wire.
    heard: Arc<Mutex<Vec<u8>>>,
}

/// The server, on a port of its own until the test ends.
#[derive(Clone)]
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
        Self::serving(answers, None)
    }

    /// The same behind TLS. Every connection finds a good face where none is put on.
    ///
    /// # Panics
    /// Where there is no port.
    #[must_use]
    pub fn secure(answers: &[Answer]) -> Self {
        Self::serving(answers, Some(Tls::default()))
    }

    fn serving(answers: &[Answer], tls: Option<Tls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { tls, ..Shared::default() });
        let model = Self { address, shared: Arc::clone(&shared) };
        answers.iter().for_each(|answer| model.answer(answer.clone()));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || connected(stream, &shared));
            }
        });
        model
    }

    /// What the next connection without one finds.
    ///
    /// # Panics
    /// Where a thread of the server panicked.
    pub fn put_on(&self, face: Face) {
        self.shared.faces.lock().expect("a lock").push_back(face);
    }

    /// The certificate of its authority; empty where it does without TLS.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.shared.tls.as_ref().map_or("", Tls::authority)
    }

    /// Every byte that came in so far, as it was on the wire.
    ///
    /// # Panics
    /// Where a thread of the server panicked.
    #[must_use]
    pub fn heard(&self) -> String {
        String::from_utf8_lossy(&self.shared.heard.lock().expect("a lock")).into_owned()
    }

    /// Adds an answer.
    ///
    /// # Panics
    /// Where a thread of the server panicked.
    pub fn answer(&self, answer: Answer) {
        self.shared.answers.lock().expect("a lock").push_back(answer);
        self.shared.more.notify_all();
    }

    /// Takes back what nobody asked for yet.
    ///
    /// # Panics
    /// Where a thread of the server panicked.
    pub fn forget_answers(&self) {
        self.shared.answers.lock().expect("a lock").clear();
    }

    /// Its address as a setting.
    #[must_use]
    pub fn url(&self) -> String {
        match self.shared.tls {
            Some(_) => format!("https://{HOST}:{}", self.address.port()),
            None => format!("http://{}", self.address),
        }
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

fn connected(stream: TcpStream, shared: &Shared) -> Option<()> {
    let mut stream = Heard::new(stream, Arc::clone(&shared.heard));
    let Some(tls) = &shared.tls else { return serve(stream, shared) };
    let face = shared.faces.lock().ok()?.pop_front().unwrap_or(Face::Good);
    match face {
        Face::Plain => {
            // A request in the clear would be heard.
            let _ = stream.write_all(b"HTTP/1.1 400 X\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
            None
        }
        Face::Silent => stream.read_to_end(&mut Vec::new()).ok().map(drop),
        Face::Closes => stream.read(&mut [0; 64]).ok().map(drop),
        Face::Good | Face::Stranger | Face::Impostor | Face::Expired | Face::OtherHost => {
            serve(tls.accept(face, stream)?, shared)
        }
    }
}

fn serve<S: Read + Write>(stream: S, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(stream);
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
        say(reader.get_mut(), answer)?;
    }
}

/// Writes an answer. None ends the connection.
fn say(stream: &mut impl Write, answer: Answer) -> Option<()> {
    let head = |length: usize, kind: &str| {
        format!("HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n")
    };
    let whole = whole_text("half a word");
    let half = &whole[..whole.len() / 2];
    match answer {
        Answer::Cut => {
            let head = head(whole.len(), STREAM);
            stream.write_all(format!("{head}{half}").as_bytes()).and_then(|()| stream.flush()).ok()?;
            return None;
        }
        Answer::Half => {
            let head = head(half.len(), STREAM);
            stream.write_all(format!("{head}{half}").as_bytes()).ok()?;
        }
        Answer::Endless => {
            stream.write_all(head(usize::MAX / 2, STREAM).as_bytes()).ok()?;
            let events = "event: ping\ndata: {\"type\": \"ping\"}\n\n".repeat(1000);
            loop {
                stream.write_all(events.as_bytes()).ok()?;
            }
        }
        Answer::Moved(place) => {
            let head = format!("HTTP/1.1 307 X\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).ok()?;
        }
        other @ (Answer::Text(_)
        | Answer::Calls(_)
        | Answer::Refusal
        | Answer::Garbage
        | Answer::Page
        | Answer::Says(..)
        | Answer::Breaks
        | Answer::Empty
        | Answer::Silence) => {
            let (status, kind, text) = written(other)?;
            let head = head(text.len(), kind).replacen("200", &status.to_string(), 1);
            stream.write_all(format!("{head}{text}").as_bytes()).ok()?;
        }
    }
    stream.flush().ok()
}

const STREAM: &str = "text/event-stream";

fn whole_text(text: &str) -> String {
    stream(&[json!({"type": "text", "text": text})], "end_turn")
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
        Answer::Garbage => {
            return Some((200, "text/event-stream", "\u{1}not an event\n\ndata: {{{\n\n".into()));
        }
        Answer::Page => return Some((200, "text/html", "<html>hello</html>".into())),
        Answer::Says(status, body) => return Some((status, "application/json", body)),
        Answer::Breaks => {
            let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "no"}});
            let text = whole_text("begun");
            let begun = &text[..text.find("event: message_delta")?];
            return Some((200, STREAM, format!("{begun}event: error\ndata: {error}\n\n")));
        }
        Answer::Empty | Answer::Moved(_) | Answer::Half | Answer::Cut | Answer::Endless => {
            return Some((200, STREAM, String::new()));
        }
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
