//! What stands in for Claude Code: it asks its model, makes the calls that it is told to, and times each one.
//!
//! It runs in Claude Code's own cage and speaks to the same port with the same secrets, so a call's time is the
//! executor's, its two records included, and neither Claude Code's nor ChatGPT's.
//! Invariant: one call after another, each on the connection of the one before, as Claude Code makes them.

use std::{
    env, fs,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::PACE;

/// What Claude Code's command line begins with.
const FIRST_ARGUMENT: &str = "--bare";

/// Where the times go, in the folder that Claude Code keeps its own things in.
pub(crate) const TIMES: &str = "times";

/// Whether this process was started as Claude Code.
pub(crate) fn is_asked() -> bool {
    env::args().nth(1).as_deref() == Some(FIRST_ARGUMENT)
}

/// Answers prompts until there are no more.
pub(crate) fn run() {
    let config =
        env::args().skip_while(|argument| argument != "--mcp-config").nth(1).expect("a configuration");
    let config: Value = serde_json::from_str(&fs::read_to_string(config).unwrap()).unwrap();
    let tools = &config["mcpServers"]["gateway"];
    let bearer = tools["headers"]["Authorization"].as_str().expect("a secret").to_owned();
    let address = tools["url"].as_str().and_then(|url| url.split('/').nth(2)).expect("an address");
    let key = env::var("ANTHROPIC_API_KEY").expect("a key");
    let folder = env::var("CLAUDE_CONFIG_DIR").expect("a folder");
    let mut stand_in = StandIn {
        model: Connection::open(address, "/v1/messages?beta=true", &format!("x-api-key: {key}")),
        tools: Connection::open(address, "/mcp", &format!("Authorization: {bearer}")),
        times: File::create(format!("{folder}/{TIMES}")).unwrap(),
        messages: Vec::new(),
    };
    stand_in.tools.rpc("initialize", &json!({
        "protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "stand-in", "version": "1"},
    }));
    for _ in io::stdin().lines() {
        stand_in.answer();
    }
}

/// The protocol's revision that Claude Code speaks.
const REVISION: &str = "2025-11-25";

struct StandIn {
    model: Connection,
    tools: Connection,
    times: File,
    messages: Vec<Value>,
}

impl StandIn {
    /// One run: turns until one has no calls.
    fn answer(&mut self) {
        say(&json!({
            "type": "system", "subtype": "init", "claude_code_version": "0.0.0-bench",
            "mcp_servers": [{"name": "gateway", "status": "connected"}],
        }));
        let mut content = json!("p");
        loop {
            self.messages.push(json!({"role": "user", "content": content}));
            let asked = json!({
                "model": "chatgpt-main", "messages": self.messages, "max_tokens": 32000, "stream": true,
                "tools": [{"name": "mcp__gateway__Edit", "input_schema": {}}],
            });
            let calls = calls_in(&self.model.post(&asked));
            if calls.is_empty() {
                return say(&json!({"type": "result", "is_error": false, "result": "done"}));
            }
            content = calls.iter().map(|call| self.call(call)).collect();
        }
    }

    fn call(&mut self, call: &Call) -> Value {
        let params = json!({
            "name": call.tool, "arguments": call.input,
            "_meta": {"claudecode/toolUseId": call.id, "progressToken": 1},
        });
        thread::sleep(PACE);
        let (result, taken) = self.tools.rpc("tools/call", &params);
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        writeln!(self.times, "{}\t{}\t{}\t{first}", call.tool, result["isError"] == true, taken.as_nanos())
            .unwrap();
        json!({"type": "tool_result", "tool_use_id": call.id, "content": first})
    }
}

fn say(line: &Value) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

struct Call {
    id: String,
    tool: String,
    input: Value,
}

/// The tool calls of a streamed answer.
fn calls_in(stream: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for event in events(stream) {
        let block = &event["content_block"];
        if block["type"] == "tool_use" {
            let (id, name) = (block["id"].as_str().unwrap(), block["name"].as_str().unwrap());
            let tool = name.trim_start_matches("mcp__gateway__").to_owned();
            calls.push(Call { id: id.to_owned(), tool, input: Value::Null });
        } else if event["delta"]["type"] == "input_json_delta" {
            let call = calls.last_mut().expect("a call before its input");
            call.input = serde_json::from_str(event["delta"]["partial_json"].as_str().unwrap()).unwrap();
        }
    }
    calls
}

fn events(stream: &str) -> impl Iterator<Item = Value> {
    stream.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
}

/// A kept connection to one path of the session's port.
struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Connection {
    fn open(address: &str, path: &str, secret: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\n{secret}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {REVISION}\r\n"
        );
        Self { stream: BufReader::new(stream), head }
    }

    /// A method's result, and how long it took from the request's first byte to the answer's last.
    fn rpc(&mut self, method: &str, params: &Value) -> (Value, Duration) {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let at = Instant::now();
        let answer = self.post(&message);
        let taken = at.elapsed();
        let answer = events(&answer).last().or_else(|| serde_json::from_str(&answer).ok());
        let mut answer = answer.unwrap_or_else(|| panic!("no answer to {method}"));
        assert!(answer["error"].is_null(), "{answer}");
        (answer["result"].take(), taken)
    }

    fn post(&mut self, body: &Value) -> String {
        let body = body.to_string();
        let whole = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(whole.as_bytes()).unwrap();
        let mut length = None;
        assert!(self.line().contains(" 200 "), "refused");
        loop {
            let line = self.line().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(bytes) = line.strip_prefix("content-length:") {
                length = Some(bytes.trim().parse().unwrap());
            }
        }
        let mut answer = Vec::new();
        match length {
            Some(length) => self.take(length, &mut answer),
            None => loop {
                let size = u64::from_str_radix(&self.line(), 16).unwrap();
                self.take(size, &mut answer);
                self.line();
                if size == 0 {
                    break;
                }
            },
        }
        String::from_utf8(answer).unwrap()
    }

    fn take(&mut self, bytes: u64, into: &mut Vec<u8>) {
        let got = self.stream.by_ref().take(bytes).read_to_end(into).unwrap();
        assert_eq!(got as u64, bytes, "the answer was cut");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
