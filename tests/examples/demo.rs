//! What ChatGPT does with the gateway, played by a script: one session on this repository with the real Claude Code, each
//! turn printed as it happens, and the supervisor killed in the middle.
//!
//! Everything lives in a temporary folder that is gone at the end. `scripts/demo` builds and runs it.
#![expect(clippy::print_stdout, reason = "it is there to be watched")]

use std::time::Instant;

use serde_json::{Value, json};
use tests::{CallError, Gateway, Session, binaries, key};

/// As much of a result as a reader wants to see scroll by.
const SHOWN_LINES: usize = 8;

fn main() -> Result<(), CallError> {
    let started = Instant::now();
    let repository = binaries::repository();
    say("gateway", "starting on a temporary state…");
    let mut gateway = Gateway::start();
    say(
        "gateway",
        &format!("ready at http://{}/mcp after {:.1?}", gateway.client.address, started.elapsed()),
    );

    say("ChatGPT", "native_session_start: \"What is this project, and what does it promise?\"");
    let mut session =
        Session::start(&gateway.client, &repository, "What is this project, and what does it promise?");
    show_turn(&mut session);

    act(&mut session, "FindFiles", &json!({"directory": repository, "glob": "*/Cargo.toml"}));
    act(
        &mut session,
        "SearchText",
        &json!({"query": "Invariant:", "path": repository, "glob": "*.rs", "limit": 5}),
    );
    act(&mut session, "Read", &json!({"file_path": repository.join("README.md"), "limit": 6}));

    say("you", "kill -9 of the supervisor, in the middle of the run");
    gateway.restart();
    say("gateway", "started again; Claude Code and its worker noticed nothing");
    say("ChatGPT", "native_session_recover");
    session.recover(&key(), 30)?;
    show_turn(&mut session);

    let answer = "A gateway that lets ChatGPT drive a real Claude Code session, with every action on record.";
    say("ChatGPT", &format!("reply: {answer}"));
    let result = session.finish(answer);
    say("session", &format!("{}; last_result: {result}", session.text("status")));

    say("ChatGPT", "native_session_continue: \"Thank you. Anything else?\"");
    session.go_on("Thank you. Anything else?");
    show_turn(&mut session);
    session.finish("No. That was all.");
    session.stop();
    say("session", session.text("status"));
    gateway.wait_for_no_runners();
    let code = gateway.terminate();
    say("gateway", &format!("ended with exit code {}, nothing is left", code.unwrap_or(-1)));
    say("demo", &format!("{:.1?} in all", started.elapsed()));
    Ok(())
}

/// One reply with one tool call, and what came back.
fn act(session: &mut Session, tool: &str, input: &Value) {
    say("ChatGPT", &format!("reply with a call: {tool} {input}"));
    let at = Instant::now();
    let results = session.act(&[(tool, input.clone())]);
    for result in &results {
        let content = result["content"].as_str().unwrap_or_default();
        let lines: Vec<&str> = content.lines().collect();
        for line in lines.iter().take(SHOWN_LINES) {
            println!("              │ {}", line.chars().take(110).collect::<String>());
        }
        if lines.len() > SHOWN_LINES {
            println!("              │ … {} more lines", lines.len() - SHOWN_LINES);
        }
    }
    say(
        "Claude Code",
        &format!("took the result and asks its model again: the next turn, after {:.1?}", at.elapsed()),
    );
}

fn show_turn(session: &mut Session) {
    let turn = session.turn();
    let tools: Vec<&str> =
        turn["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
    let tools = if tools.is_empty() { String::new() } else { format!("; tools: {}", tools.join(", ")) };
    let prompt = turn["prompt"].as_str().map(|p| format!(" (prompt: {p})")).unwrap_or_default();
    say("Claude Code", &format!("turn {} waits for ChatGPT{prompt}{tools}", turn["sequence"]));
}

fn say(who: &str, what: &str) {
    println!("{who:>12}  {what}");
}
