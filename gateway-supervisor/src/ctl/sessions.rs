//! The gateway and its sessions as pages.

use serde_json::Value;

use super::page::{Cell, Page, Tone};
use crate::config::Config;

/// As much of an id as tells sessions apart, and `gatewayctl show` takes.
const SHORT_ID: usize = 12;

/// As much of a long text as a page shows; the rest is in `--json`.
const TEXT_CHARS: usize = 400;

fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body[field].as_str().unwrap_or_default()
}

fn tone(status: &str) -> Tone {
    match status {
        "waiting_for_gpt" | "running" | "starting" => Tone::Good,
        "recovery_required" | "lease_expired" | "stopping" => Tone::Care,
        "failed" => Tone::Bad,
        _ => Tone::Plain,
    }
}

/// A moment without its fraction of a second.
fn moment(rfc3339: &str) -> String {
    match rfc3339.split_once('.') {
        Some((seconds, _)) => format!("{} UTC", seconds.replace('T', " ")),
        None => rfc3339.to_owned(),
    }
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= TEXT_CHARS {
        return line;
    }
    line.chars().take(TEXT_CHARS).chain(['…']).collect()
}

/// How the gateway stands.
pub(super) fn overview(body: &Value, config: &Config) -> Page {
    let mut page = Page::default();
    let since =
        format!("running since {}, release {}", moment(text(body, "started_at")), text(body, "version"));
    page.row([Cell::new("gateway", Tone::Name), Cell::new(since, Tone::Good)]);
    page.pair("address", text(body, "mcp_url"));
    page.pair("token", config.state.join("token").display().to_string());
    page.pair("state", config.state.display().to_string());
    let count = |which: &str| body["sessions"][which].as_u64().unwrap_or_default();
    page.pair(
        "sessions",
        format!("{} stored, {} with a live Claude Code", count("stored"), count("attached")),
    );
    page
}

/// Every session.
pub(super) fn list(body: &Value) -> Page {
    let mut page = Page::default();
    let sessions = body["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if sessions.is_empty() {
        page.row([Cell::plain("No sessions yet. ChatGPT starts one with native_session_start.")]);
        return page;
    }
    let heads = ["ID", "STATUS", "CLAUDE CODE", "PROFILE", "LEASE UNTIL", "DIRECTORY", "LABEL"];
    page.row(heads.map(|head| Cell::new(head, Tone::Name)));
    for session in sessions {
        let id: String = text(session, "native_session_id").chars().take(SHORT_ID).collect();
        let status = text(session, "status");
        let attached = if session["runtime_attached"] == true { "attached" } else { "-" };
        page.row([
            Cell::plain(id),
            Cell::new(status, tone(status)),
            Cell::plain(attached),
            Cell::plain(text(session, "capability_profile")),
            Cell::plain(moment(text(session, "lease_expires_at"))),
            Cell::plain(text(session, "source_directory")),
            Cell::plain(text(session, "session_label")),
        ]);
    }
    for session in sessions.iter().filter(|session| session["trouble"].is_string()) {
        page.gap();
        let line = format!("{}: {}", text(session, "native_session_id"), text(session, "trouble"));
        page.row([Cell::new(line, Tone::Bad)]);
    }
    if let Some(omitted) = body["omitted"].as_u64() {
        page.gap();
        page.row([Cell::new(format!("{omitted} older sessions are not listed."), Tone::Care)]);
    }
    page
}

/// One session.
pub(super) fn one(body: &Value) -> Page {
    let mut page = Page::default();
    page.pair("session", text(body, "native_session_id"));
    page.pair("claude session", text(body, "claude_session_id"));
    if let Some(label) = body["session_label"].as_str() {
        page.pair("label", label);
    }
    let status = text(body, "status");
    page.row([Cell::new("status", Tone::Name), Cell::new(status, tone(status))]);
    let attached = if body["runtime_attached"] == true { "attached" } else { "not attached" };
    let version = text(&body["claude_code"], "version");
    page.pair("claude code", format!("{attached} {version}").trim_end());
    page.pair("profile", text(body, "capability_profile"));
    page.pair("directory", text(body, "source_directory"));
    page.pair("works in", text(body, "working_directory"));
    for note in body["workspace"]["notes"].as_array().into_iter().flatten() {
        // Whole: it holds commands.
        page.pair("", note.as_str().unwrap_or_default());
    }
    page.pair("lease until", moment(text(body, "lease_expires_at")));
    page.pair("revision", body["revision"].to_string());
    if body["launch_error"].is_object() {
        let error = &body["launch_error"];
        let line = format!("{}: {}", text(error, "code"), text(error, "message"));
        page.row([Cell::new("launch error", Tone::Name), Cell::new(line, Tone::Bad)]);
    }
    add_run(&mut page, body);
    add_subsessions(&mut page, body);
    page
}

fn add_subsessions(page: &mut Page, body: &Value) {
    for sub in body["deepseek_subsessions"].as_array().into_iter().flatten() {
        let ended = sub["ended_at"].as_str().map_or_else(String::new, |at| format!(" to {}", moment(at)));
        let (model, state, since) = (text(sub, "model"), text(sub, "state"), moment(text(sub, "started_at")));
        let turns = sub["turns"].as_u64().map_or_else(String::new, |turns| format!(", {turns} turns"));
        page.pair("sub-session", format!("{} {model} {state}, {since}{ended}{turns}", text(sub, "id")));
        for why in ["reason", "text"] {
            if let Some(words) = sub[why].as_str() {
                page.pair("", shortened(words));
            }
        }
        for file in sub["files_changed"].as_array().into_iter().flatten() {
            page.pair("", format!("{} {}", text(file, "sha256_after"), text(file, "path")));
        }
    }
}

fn add_run(page: &mut Page, body: &Value) {
    let run = &body["current_run"];
    if run.is_object() {
        let outcome = text(run, "outcome");
        page.pair("run", format!("{} {outcome}, since {}", run["sequence"], moment(text(run, "started_at"))));
    }
    let turn = &body["pending_turn"];
    if turn.is_object() {
        page.pair("pending turn", format!("{} of the run, waits for ChatGPT", turn["sequence"]));
        if let Some(prompt) = turn["prompt"].as_str() {
            page.pair("prompt", shortened(prompt));
        }
        for result in turn["tool_results"].as_array().into_iter().flatten() {
            let verdict = if result["is_error"] == true { "failed" } else { "done" };
            page.pair(
                "result",
                format!("{} {verdict}: {}", text(result, "tool"), shortened(text(result, "content"))),
            );
        }
    }
    if body["last_result"].is_object() {
        page.pair("last result", shortened(text(&body["last_result"], "text")));
    }
}

/// What a stop left.
pub(super) fn stopped(body: &Value) -> Page {
    let mut page = Page::default();
    let status = text(body, "status");
    let line = match status {
        "stopped" => format!("{} is stopped; its records stay.", text(body, "native_session_id")),
        other => format!("{} is {other}.", text(body, "native_session_id")),
    };
    page.row([Cell::new(line, if status == "stopped" { Tone::Good } else { Tone::Care })]);
    page
}
