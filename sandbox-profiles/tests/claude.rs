//! The real Claude Code behind its walls: it answers, and its cage holds nothing else.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "support/house.rs"]
#[expect(dead_code, reason = "the house is furnished for every test; this one uses a part of it")]
mod house;
#[path = "support/model.rs"]
mod model;

use house::{House, finish, helper, path};
use sandbox_profiles::{
    Network, SandboxSpec,
    launch::{Caged, ClaudeCage, Ending, Program, libraries_of},
};
use std::{
    fs,
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

/// The real program: `CLAUDE_BIN`, or else the pinned one, fetched when it is missing.
fn claude() -> PathBuf {
    if let Some(named) = std::env::var_os("CLAUDE_BIN") {
        return PathBuf::from(named).canonicalize().unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/claude-code");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = String::from_utf8(output.stdout).unwrap();
    PathBuf::from(path.lines().last().expect("the script prints a path")).canonicalize().unwrap()
}

fn spec(house: &House, program: &Path) -> SandboxSpec {
    SandboxSpec::claude(path(house.at("scratch")), Vec::new(), libraries_of(program).unwrap())
}

/// Starts `program` as Claude Code is started, with the port known before.
fn start(house: &House, program: &Path, arguments: &[String]) -> (Caged, TcpListener) {
    let (cage, listener) = ClaudeCage::open(&helper(), Network::LoopbackListener { port: 0 }).unwrap();
    let port = listener.local_addr().unwrap().port();
    let scratch = house.at("scratch");
    fs::create_dir_all(scratch.join("work")).unwrap();
    fs::create_dir_all(scratch.join("tmp")).unwrap();
    let servers = serde_json::json!({"mcpServers": {"gateway": {"type": "http", "url": format!("http://127.0.0.1:{port}/mcp")}}});
    fs::write(scratch.join("mcp.json"), servers.to_string()).unwrap();
    let text = |path: PathBuf| path.into_os_string();
    let environment = vec![
        ("HOME".into(), text(scratch.clone())),
        ("CLAUDE_CONFIG_DIR".into(), text(scratch.join("config"))),
        ("TMPDIR".into(), text(scratch.join("tmp"))),
        ("PATH".into(), "".into()),
        ("ANTHROPIC_BASE_URL".into(), format!("http://127.0.0.1:{port}").into()),
        ("ANTHROPIC_API_KEY".into(), "key".into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into()),
        ("DISABLE_AUTOUPDATER".into(), "1".into()),
    ];
    let mut all = vec![program.as_os_str().to_owned()];
    all.extend(arguments.iter().map(|argument| argument.replace("PORT", &port.to_string()).into()));
    let order =
        Program { path: path(program), arguments: all, directory: path(scratch.join("work")), environment };
    (cage.spawn(&spec(house, program), &order).unwrap(), listener)
}

#[test]
fn claude_code_runs_a_turn_with_a_tool_and_an_answer() {
    let house = House::build();
    let servers = house.at("scratch/mcp.json").display().to_string();
    let arguments: Vec<String> = [
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
        "--mcp-config",
        &servers,
        "--tools",
        "",
        "--disable-slash-commands",
        "--session-id",
        "7c3f3f0e-1d35-4f0b-9d0f-0e5f8f0a2a11",
        "--model",
        "chatgpt-main",
        "--permission-mode",
        "dontAsk",
        "--allowedTools",
        "mcp__gateway__Look",
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    let (mut caged, listener) = start(&house, &claude(), &arguments);
    let asked = model::serve(listener);
    let prompt = serde_json::json!({"type": "user", "message": {"role": "user", "content": "look at it"}});
    caged.stdin.as_mut().unwrap().write_all(format!("{prompt}\n").as_bytes()).unwrap();
    let outcome = finish(caged);
    let asked = asked.lock().unwrap();
    assert!(
        outcome.stdout.contains("all seen"),
        "{outcome:?}\n{:?}",
        asked.iter().map(|(r, _)| r).collect::<Vec<_>>()
    );
    assert_eq!(outcome.ending, Ending::Exited(0));
    let called = asked.iter().filter(|(_, body)| body["method"] == "tools/call").count();
    assert_eq!(called, 1, "the tool was called once");
    // It wrote its transcript into its home, and nothing beside it.
    assert!(house.at("scratch/config/projects").is_dir());
    assert_eq!(fs::read_dir(house.at("home/project")).unwrap().count(), 1);
}
