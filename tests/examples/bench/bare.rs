//! Claude Code without the gateway: the same command line against a stub, as the floor under every number.

use std::{
    fs,
    io::Write,
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;
use tests::binaries;

use crate::stub::{Answer, Stub};

/// Claude Code with a stub in its model's and its tools' place.
pub(crate) struct Bare {
    stub: Stub,
    claude: Child,
    stdin: ChildStdin,
    _home: tempfile::TempDir,
}

impl Bare {
    /// Starts Claude Code; it waits for a prompt.
    pub(crate) fn spawn() -> Self {
        let stub = Stub::listen();
        let home = tempfile::tempdir().unwrap();
        let url = format!("http://{}", stub.address);
        let servers = home.path().join("mcp.json");
        let config = json!({"mcpServers": {"gateway": {"type": "http", "url": format!("{url}/mcp"), "timeout": 86_400_000}}});
        fs::write(&servers, config.to_string()).unwrap();
        let mut claude = Command::new(binaries::claude_code())
            .args([
                "--bare",
                "-p",
                "--input-format",
                "stream-json",
                "--output-format",
                "stream-json",
                "--verbose",
            ])
            .args(["--setting-sources", "", "--strict-mcp-config", "--tools", "", "--disable-slash-commands"])
            .args([
                "--model",
                "chatgpt-main",
                "--permission-mode",
                "dontAsk",
                "--allowedTools",
                "mcp__gateway__Read",
            ])
            .args(["--session-id", &uuid::Uuid::new_v4().to_string(), "--mcp-config"])
            .arg(&servers)
            .env_clear()
            .env("HOME", home.path())
            .env("CLAUDE_CONFIG_DIR", home.path().join("config"))
            .env("TMPDIR", home.path())
            .env("ANTHROPIC_BASE_URL", &url)
            .env("ANTHROPIC_API_KEY", "none")
            .envs(["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER"].map(|name| (name, "1")))
            .env("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "100000000")
            .current_dir(home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Claude Code starts");
        let stdin = claude.stdin.take().expect("stdin is piped");
        Self { stub, claude, stdin, _home: home }
    }

    /// Gives it a prompt.
    pub(crate) fn prompt(&self) {
        let line = json!({"type": "user", "message": {"role": "user", "content": "p"}});
        writeln!(&self.stdin, "{line}").unwrap();
    }

    /// Waits for its next request and says when it had come in whole.
    pub(crate) fn next_request(&self) -> Instant {
        self.stub.requests.recv_timeout(Duration::from_secs(60)).expect("a request")
    }

    /// Ends the run.
    pub(crate) fn answer_text(&self) {
        self.stub.answers.send(Answer::Text).unwrap();
    }

    /// A tool round: the stub's answer with a call, whose result is `result`, until the next request.
    pub(crate) fn round(&self, result: &str) -> Duration {
        let at = Instant::now();
        self.stub.answers.send(Answer::Call { result: result.to_owned() }).unwrap();
        self.next_request() - at
    }

    /// Waits until the answer that ended the run is out. Claude Code takes its next prompt when it has read it.
    pub(crate) fn wait_for_end(&self) {
        self.stub.ended.recv_timeout(Duration::from_secs(60)).expect("the end of the run");
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.claude.kill();
        let _ = self.claude.wait();
    }
}
