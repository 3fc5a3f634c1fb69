//! Claude Code's command line and environment.
//!
//! Invariant: no secret on the command line; nothing of the worker's own environment is passed on.
//! Invariant: there is no built-in tool, no setting from anywhere, no other server, no other model, no telemetry, no update.

use std::{ffi::OsString, path::PathBuf};

use protocol::{id::ClaudeSessionId, secret::Token, tool::ToolName};

use super::{
    endpoint::ModelEndpoint,
    home::{Home, Start},
};

/// The name under which Claude Code knows its model, in every record of its own (I1).
pub(crate) const MODEL: &str = "chatgpt-main";

/// A week and an hour, in milliseconds: longer than any lease, so that Claude Code never gives up before it (T2).
const PATIENCE_MS: &str = "608400000";

/// What Claude Code is started with.
#[derive(Debug)]
pub(crate) struct Settings<'a> {
    /// Its folders.
    pub(crate) home: &'a Home,
    /// Its model's address.
    pub(crate) endpoint: &'a ModelEndpoint,
    /// The secret that the bridge demands.
    pub(crate) bridge_secret: &'a Token,
    /// The file that names the gateway's tools.
    pub(crate) mcp_config: PathBuf,
    /// Its session.
    pub(crate) session_id: ClaudeSessionId,
    /// Whether it resumes that session.
    pub(crate) start: Start,
    /// The name under which it knows its model.
    pub(crate) model: &'a str,
    /// The tools it may call.
    pub(crate) tools: &'a [ToolName],
}

/// The arguments, without the program itself.
pub(crate) fn arguments(settings: &Settings<'_>) -> Vec<OsString> {
    let session = match settings.start {
        Start::New => "--session-id",
        Start::Resume => "--resume",
    };
    let mut arguments: Vec<OsString> = [
        "--bare",
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--setting-sources",
        "",
        "--strict-mcp-config",
        "--tools",
        "",
        "--disable-slash-commands",
        "--model",
        settings.model,
        "--permission-mode",
        "dontAsk",
        session,
    ]
    .map(OsString::from)
    .into();
    arguments.push(settings.session_id.to_string().into());
    arguments.push("--mcp-config".into());
    arguments.push(settings.mcp_config.clone().into_os_string());
    arguments.push("--allowedTools".into());
    arguments.extend(settings.tools.iter().map(|tool| format!("mcp__gateway__{}", tool.name()).into()));
    arguments
}

/// The whole environment.
pub(crate) fn environment(settings: &Settings<'_>) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("HOME", settings.home.home().into_os_string()),
        ("CLAUDE_CONFIG_DIR", settings.home.config().into_os_string()),
        ("TMPDIR", settings.home.temporary().into_os_string()),
        // Without a path it finds no program to start.
        ("PATH", OsString::new()),
        ("ANTHROPIC_BASE_URL", settings.endpoint.url().into()),
        ("ANTHROPIC_API_KEY", settings.bridge_secret.expose().into()),
    ];
    let fixed = [
        // Waiting: every clock that could cut a turn is set beyond the longest lease, and the two watchdogs are off.
        ("API_TIMEOUT_MS", PATIENCE_MS),
        ("CLAUDE_STREAM_IDLE_TIMEOUT_MS", PATIENCE_MS),
        ("CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS", PATIENCE_MS),
        ("CLAUDE_ENABLE_STREAM_WATCHDOG", "0"),
        ("CLAUDE_ENABLE_BYTE_WATCHDOG", "0"),
        // A turn that was re-sent in another form would be a second answer to the same question.
        ("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "1"),
        // Its window is taken for so large that it never asks for a summary of its history.
        ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "100000000"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        // It is an executor of the gateway's [I2].
        ("CLAUDE_TOOLS_NATIVE_EXECUTOR", "1"),
    ];
    variables.extend(fixed.map(|(name, value)| (name, value.into())));
    variables
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use protocol::{
        profile::{Profile, SubagentPolicy},
        secret::Secret,
    };

    use super::*;

    #[test]
    fn the_command_line_and_the_environment_are_known_to_the_byte() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::prepare(folder.path()).unwrap();
        let endpoint = ModelEndpoint::verify("http://127.0.0.1:4242").unwrap();
        let secret = Secret::new("the-secret".to_owned());
        let settings = Settings {
            home: &home,
            endpoint: &endpoint,
            bridge_secret: &secret,
            mcp_config: folder.path().join("claude/mcp.json"),
            session_id: "6a4b1c9e-0d2f-4a55-9a39-1b7f7c0e4d11".parse().unwrap(),
            start: Start::New,
            model: MODEL,
            tools: &ToolName::allowed(Profile::ReadOnly, SubagentPolicy::None)[..3],
        };
        let mut text = String::new();
        let line = arguments(&settings);
        for argument in &line {
            writeln!(text, "{argument:?}").unwrap();
        }
        writeln!(text, "---").unwrap();
        for (name, value) in environment(&settings) {
            writeln!(text, "{name}={}", value.to_str().unwrap()).unwrap();
        }
        let text = text.replace(folder.path().to_str().unwrap(), "SESSION");
        insta::assert_snapshot!(text);
        assert!(!line.iter().any(|argument| argument.to_str().unwrap().contains("the-secret")));
        let resumed = arguments(&Settings { start: Start::Resume, ..settings });
        assert!(resumed.contains(&"--resume".into()) && !resumed.contains(&"--session-id".into()));
    }
}
