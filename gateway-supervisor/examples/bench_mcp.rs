//! Round trips of the door beside those of a bare server of the same protocol library with one empty tool, in one run.
//!
//! Prints one JSON object: milliseconds, `p50` and `p99`, for a `status` call on a kept connection and for a fresh connection with
//! its handshake, as ChatGPT makes one for every call. `cargo run --release --example bench_mcp -- 3000`.
#![expect(clippy::print_stdout, reason = "the result is what it is run for")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops where something fails")]

use std::{
    convert::Infallible,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Instant,
};

use gateway_supervisor::{
    mcp::{
        config::DoorConfig,
        input::{ContinueInput, RecoverInput, ReplyInput, StartInput, StatusInput, StopInput},
        server::Door,
        sessions::{Caller, Sessions},
        token::Bearer,
    },
    session::view::{NetworkBoundary, SessionView, WorkspaceView},
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::{
    failure::{ErrorCode, Failure},
    profile::{Profile, SubagentPolicy},
    session::Status,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ServerCapabilities, ServerConfig},
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Sessions that answer at once: what is measured is the door.
#[derive(Clone)]
struct AtOnce;

fn refused() -> Result<SessionView, Failure> {
    Err(Failure::fixed(ErrorCode::NotAvailable, "only status is measured", "call native_session_status"))
}

impl Sessions for AtOnce {
    async fn start(&self, _: StartInput, _: Caller) -> Result<SessionView, Failure> {
        refused()
    }
    async fn continue_(&self, _: ContinueInput, _: Caller) -> Result<SessionView, Failure> {
        refused()
    }
    async fn recover(&self, _: RecoverInput, _: Caller) -> Result<SessionView, Failure> {
        refused()
    }
    async fn reply(&self, _: ReplyInput, _: Caller) -> Result<SessionView, Failure> {
        refused()
    }
    async fn status(&self, input: StatusInput, _: Caller) -> Result<SessionView, Failure> {
        Ok(idle(input.native_session_id))
    }
    async fn stop(&self, _: StopInput, _: Caller) -> Result<SessionView, Failure> {
        refused()
    }
}

fn idle(id: String) -> SessionView {
    let text = |text: &str| text.to_owned();
    SessionView {
        native_session_id: id,
        claude_session_id: text("00000000-0000-4000-8000-000000000000"),
        status: Status::Idle,
        revision: 7,
        replay: false,
        route: "chatgpt-main",
        fallback: "none",
        lease_id: text("lease_00000000000000000000000000000000"),
        lease_expires_at: text("2026-01-01T00:00:00Z"),
        session_label: None,
        capability_profile: Profile::ReadOnly,
        subagent_policy: SubagentPolicy::None,
        deepseek_route: None,
        deepseek_subsessions: Vec::new(),
        active_deepseek_subsession_id: None,
        skill_snapshot: Vec::new(),
        working_directory: text("/home/ann/project"),
        source_directory: text("/home/ann/project"),
        workspace: WorkspaceView {
            kind: "read_only",
            root: text("/home/ann/project"),
            branch: None,
            base_commit: None,
            notes: Vec::new(),
        },
        network_boundary: NetworkBoundary {
            claude: text("loopback_port_only"),
            commands: text("none"),
            enforced_by: Vec::new(),
        },
        runtime_attached: true,
        recovery_required: false,
        current_run: None,
        pending_turn: None,
        stop_request: None,
        terminal: None,
        last_result: None,
        launch_error: None,
        recovery_token: None,
        claude_code: None,
        next: Some(text("call native_session_continue with the next prompt, or native_session_stop")),
    }
}

/// A server of the protocol library that does nothing.
#[derive(Clone)]
struct Stub;

impl ServerHandler for Stub {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(Vec::new()).into())
    }
}

async fn stub(listener: TcpListener) {
    let config =
        StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let service = StreamableHttpService::new(|| Ok(Stub), Arc::new(NeverSessionManager::default()), config);
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let service = service.clone();
        let answer = service_fn(move |request| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.handle(request).await) }
        });
        tokio::spawn(
            http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), answer),
        );
    }
}

/// A server under measurement: where it is and what opens it.
struct Target {
    address: SocketAddr,
    token: String,
}

impl Target {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn post(&self, stream: &mut TcpStream, message: &Value) -> String {
        let (body, host, token) = (message.to_string(), self.address, &self.token);
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        read(stream)
    }

    fn status(&self, stream: &mut TcpStream) {
        let arguments = json!({ "native_session_id": "s", "lease_id": "l" });
        let params = json!({ "name": "native_session_status", "arguments": arguments });
        let answer = self
            .post(stream, &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
        assert!(answer.contains("\"result\""), "{answer}");
    }

    fn fresh(&self) {
        let mut stream = self.connect();
        let client = json!({ "name": "openai-mcp", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        self.post(
            &mut stream,
            &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
        );
        self.post(&mut stream, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        self.status(&mut stream);
    }
}

fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "closed");
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return body.to_owned();
        }
    }
}

fn measure(rounds: usize, mut step: impl FnMut()) -> Value {
    for _ in 0..rounds / 10 {
        step();
    }
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            step();
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| ((times[(share * (rounds - 1) as f64) as usize]) * 1e3).round() / 1e3;
    json!({ "p50": at(0.5), "p99": at(0.99) })
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(2_000);
    let state = tempfile::tempdir().unwrap();
    let bearer = Arc::new(Bearer::open(state.path()).unwrap());
    let token = std::fs::read_to_string(bearer.path()).unwrap().trim().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listen = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let (ours, theirs) = (listen(), listen());
    let door = Target { address: ours.local_addr().unwrap(), token: token.clone() };
    let bare = Target { address: theirs.local_addr().unwrap(), token };
    let drain = CancellationToken::new();
    let served = runtime.spawn(Door::new(AtOnce, bearer, DoorConfig::default(), drain.clone()).serve(ours));
    runtime.spawn(stub(theirs));
    let mut result = serde_json::Map::new();
    for (name, target) in [("stub", &bare), ("door", &door)] {
        let mut kept = target.connect();
        result.insert(format!("{name}_kept_ms"), measure(rounds, || target.status(&mut kept)));
        result.insert(format!("{name}_fresh_ms"), measure(rounds, || target.fresh()));
    }
    drain.cancel();
    runtime.block_on(served).unwrap().unwrap();
    println!("{}", Value::from(result));
}
