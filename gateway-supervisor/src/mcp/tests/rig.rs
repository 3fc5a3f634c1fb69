//! A door on a port of its own, scripted sessions, and a raw HTTP client.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use protocol::{
    failure::{ErrorCode, Failure},
    profile::{Profile, SubagentPolicy},
    session::Status,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    mcp::{
        config::DoorConfig,
        input::{ContinueInput, RecoverInput, ReplyInput, StartInput, StatusInput, StopInput},
        server::{Door, ServeError},
        sessions::{Caller, Sessions},
        token::Bearer,
    },
    session::view::{NetworkBoundary, PendingTurn, SessionView, TurnLimits, WorkspaceView},
};

pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

/// Nothing here takes longer; what does is stuck.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A view of a session with an open turn.
pub(crate) fn view(id: &str) -> SessionView {
    SessionView {
        native_session_id: id.to_owned(),
        claude_session_id: "c".to_owned(),
        status: Status::WaitingForGpt,
        revision: 1,
        replay: false,
        route: "chatgpt-main",
        fallback: "none",
        lease_id: "lease".to_owned(),
        lease_expires_at: "2026-01-01T00:00:00Z".to_owned(),
        session_label: None,
        capability_profile: Profile::ReadOnly,
        subagent_policy: SubagentPolicy::None,
        deepseek_route: None,
        deepseek_subsessions: Vec::new(),
        active_deepseek_subsession_id: None,
        skill_snapshot: Vec::new(),
        working_directory: "/w".to_owned(),
        source_directory: "/w".to_owned(),
        workspace: WorkspaceView {
            kind: "read_only",
            root: "/w".to_owned(),
            branch: None,
            base_commit: None,
            notes: Vec::new(),
        },
        network_boundary: NetworkBoundary {
            claude: "loopback_port_only".to_owned(),
            commands: "none".to_owned(),
            enforced_by: Vec::new(),
        },
        runtime_attached: true,
        recovery_required: false,
        current_run: None,
        pending_turn: Some(PendingTurn {
            turn_id: "turn".to_owned(),
            run_id: "run".to_owned(),
            sequence: 1,
            prompt: None,
            skill_instructions: None,
            tool_results: None,
            tools: None,
            tools_same_as: None,
            limits: TurnLimits { reply_bytes: 1, result_bytes: 1, turn_bytes: 1 },
            recovered_actions: None,
        }),
        stop_request: None,
        terminal: None,
        last_result: None,
        launch_error: None,
        recovery_token: None,
        claude_code: None,
        next: None,
    }
}

/// Sessions that do what the session's id says: `wait` waits until the caller is gone or `release`, `panic` panics, `hang` never
/// answers, `fail:<code>` fails; anything else answers at once.
#[derive(Clone, Default)]
pub(crate) struct Script {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    calls: Mutex<Vec<(&'static str, Value)>>,
    committed: AtomicUsize,
    observed: AtomicUsize,
    waiting: AtomicUsize,
    release: watch::Sender<bool>,
    commit_time: Mutex<Duration>,
}

impl Script {
    pub(crate) fn calls(&self) -> Vec<(&'static str, Value)> {
        self.state.calls.lock().unwrap().clone()
    }

    pub(crate) fn committed(&self) -> usize {
        self.state.committed.load(Ordering::SeqCst)
    }

    /// Waits that have ended.
    pub(crate) fn observed(&self) -> usize {
        self.state.observed.load(Ordering::SeqCst)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state.waiting.load(Ordering::SeqCst)
    }

    pub(crate) fn release(&self) {
        self.state.release.send_replace(true);
    }

    pub(crate) fn hold(&self) {
        self.state.release.send_replace(false);
    }

    /// How long each commit takes.
    pub(crate) fn commit_for(&self, time: Duration) {
        *self.state.commit_time.lock().unwrap() = time;
    }

    async fn run(&self, tool: &'static str, input: Value, caller: Caller) -> Result<SessionView, Failure> {
        let id = input["native_session_id"].as_str().or(input["prompt"].as_str()).unwrap().to_owned();
        self.state.calls.lock().unwrap().push((tool, input));
        let commit = *self.state.commit_time.lock().unwrap();
        sleep(commit).await;
        self.state.committed.fetch_add(1, Ordering::SeqCst);
        match id.as_str() {
            "panic" => panic!("scripted"),
            "hang" => std::future::pending().await,
            "wait" => {
                self.state.waiting.fetch_add(1, Ordering::SeqCst);
                let mut release = self.state.release.subscribe();
                tokio::select! {
                    _ = release.wait_for(|released| *released) => {}
                    () = caller.gone.cancelled() => {}
                }
                self.state.waiting.fetch_sub(1, Ordering::SeqCst);
                self.state.observed.fetch_add(1, Ordering::SeqCst);
                Ok(view(&id))
            }
            other => match other.strip_prefix("fail:") {
                Some(code) => {
                    let code = ErrorCode::ALL.iter().find(|known| known.text() == code).unwrap();
                    Err(Failure::passing(*code, "scripted", "call again"))
                }
                None => Ok(view(other)),
            },
        }
    }
}

macro_rules! scripted {
    ($($method:ident $input:ident,)+) => {
        impl Sessions for Script {
            $(async fn $method(&self, input: $input, caller: Caller) -> Result<SessionView, Failure> {
                self.run(stringify!($method), serde_json::to_value(input).unwrap(), caller).await
            })+
        }
    };
}

scripted! {
    start StartInput, continue_ ContinueInput, recover RecoverInput,
    reply ReplyInput, status StatusInput, stop StopInput,
}

/// A running door.
pub(crate) struct Rig {
    pub(crate) script: Script,
    pub(crate) bearer: Arc<Bearer>,
    pub(crate) token: String,
    pub(crate) drain: CancellationToken,
    pub(crate) address: SocketAddr,
    served: Option<JoinHandle<Result<(), ServeError>>>,
    _state: tempfile::TempDir,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.drain.cancel();
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The JSON body, or the last event's data.
    pub(crate) fn json(&self) -> Value {
        let text = std::str::from_utf8(&self.body).unwrap();
        if self.headers.get("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return self.events().pop().unwrap();
        }
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {} {text:?}", self.status))
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// Asserts that this is a JSON-RPC error with the id, and gives its code.
    pub(crate) fn error(&self, id: &Value) -> i64 {
        let body = self.json();
        assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), id), "{body}");
        assert!(body["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
        assert!(body.get("result").is_none(), "{body}");
        body["error"]["code"].as_i64().unwrap()
    }
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(DoorConfig::default()).await
    }

    pub(crate) async fn with(config: DoorConfig) -> Self {
        let state = tempfile::tempdir().unwrap();
        let bearer = Arc::new(Bearer::open(state.path()).unwrap());
        let token = std::fs::read_to_string(bearer.path()).unwrap().trim().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (script, drain) = (Script::default(), CancellationToken::new());
        let door = Door::new(script.clone(), Arc::clone(&bearer), config, drain.clone());
        let served = Some(tokio::spawn(door.serve(listener)));
        Self { script, bearer, token, drain, address, served, _state: state }
    }

    /// Waits until the door is closed.
    pub(crate) async fn closed(&mut self) {
        timeout(SOON, self.served.take().unwrap()).await.unwrap().unwrap().unwrap();
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The head of a request with the usual headers; `changes` replace them, or leave one out where its value is empty.
    pub(crate) fn head(&self, line: &str, length: Option<usize>, changes: &[(&str, &str)]) -> String {
        let host = self.address.to_string();
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![
            ("Host", host.as_str()),
            ("Authorization", &bearer),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        headers.retain(|(name, _)| changes.iter().all(|(changed, _)| !changed.eq_ignore_ascii_case(name)));
        headers.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        let mut head = format!("{line} HTTP/1.1\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(length) = length {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        head + "\r\n"
    }

    /// One request on a connection of its own.
    pub(crate) async fn http(&self, line: &str, body: &[u8], changes: &[(&str, &str)]) -> Answer {
        let mut stream = self.connect().await;
        self.on(&mut stream, (line, body), changes).await
    }

    /// One request on an open connection.
    pub(crate) async fn on(
        &self,
        stream: &mut TcpStream,
        (line, body): (&str, &[u8]),
        changes: &[(&str, &str)],
    ) -> Answer {
        stream.write_all(self.head(line, Some(body.len()), changes).as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        timeout(SOON, read_answer(stream)).await.unwrap()
    }

    pub(crate) async fn post(&self, message: &Value, changes: &[(&str, &str)]) -> Answer {
        self.http("POST /mcp", message.to_string().as_bytes(), changes).await
    }

    /// One request in one of the two eras.
    pub(crate) async fn rpc(&self, era: &str, method: &str, params: Value) -> Answer {
        let (message, headers) = request(era, method, params);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.post(&message, &headers).await
    }

    /// One tool call; its result.
    pub(crate) async fn call(&self, era: &str, tool: &str, arguments: Value) -> Value {
        let answer = self.rpc(era, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_eq!(answer.status, 200);
        let body = answer.json();
        assert!(body["result"].is_object(), "{body}");
        body["result"].clone()
    }
}

/// A message of an era with the headers it needs. Its id is 1.
pub(crate) fn request(era: &str, method: &str, mut params: Value) -> (Value, Vec<(&'static str, String)>) {
    let mut headers = vec![("MCP-Protocol-Version", era.to_owned())];
    if era == MODERN {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!(era);
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
        headers.push(("Mcp-Method", method.to_owned()));
        if let Some(name) = params["name"].as_str().filter(|name| !name.is_empty()) {
            headers.push(("Mcp-Name", name.to_owned()));
        }
    }
    (json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }), headers)
}

/// Reads one response, whatever its framing.
pub(crate) async fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        assert!(
            stream.read_buf(&mut bytes).await.unwrap() > 0,
            "closed: {:?}",
            String::from_utf8_lossy(&bytes)
        );
    };
    let head = std::str::from_utf8(&bytes[..end]).unwrap().to_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut body = bytes.split_off(end);
    if let Some(length) = headers.get("content-length") {
        let length = length.parse().unwrap();
        while body.len() < length {
            assert!(stream.read_buf(&mut body).await.unwrap() > 0);
        }
    } else if headers.contains_key("transfer-encoding") {
        while !body.ends_with(b"0\r\n\r\n") {
            assert!(stream.read_buf(&mut body).await.unwrap() > 0);
        }
        body = unchunked(&body);
    }
    Answer { status, headers, body }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        if size == 0 {
            return whole;
        }
        bytes = &bytes[end + 2 + size + 2..];
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let done = timeout(SOON, async {
        while !condition() {
            sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(done.await.is_ok(), "never: {what}");
}
