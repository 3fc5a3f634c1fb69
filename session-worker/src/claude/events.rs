//! What Claude Code says on its standard output: one JSON object a line, most of which nobody needs.
//!
//! Invariant: a line is never held whole: it can hold a whole reply or result.

use tokio::io::{AsyncRead, AsyncReadExt};

use protocol::{claude_code, limits::SUBSESSION_TEXT_BYTES};

use crate::top_level::{Found, Plan, Scanner, Wanted};

/// How much of an error's text is kept for people.
const DETAIL_BYTES: usize = 2 * 1024;

/// How much of a result's raw text is kept: the answer of a sub-session, with its escapes.
const RESULT_BYTES: usize = 2 * SUBSESSION_TEXT_BYTES;

const PLAN: Plan = Plan {
    fields: &[
        Wanted { name: "type", bytes: 64 },
        Wanted { name: "subtype", bytes: 64 },
        Wanted { name: "is_error", bytes: 8 },
        Wanted { name: "claude_code_version", bytes: 80 },
        Wanted { name: "mcp_servers", bytes: 1024 },
        Wanted { name: "result", bytes: RESULT_BYTES },
        Wanted { name: "errors", bytes: DETAIL_BYTES },
    ],
    list: "",
};

/// A line that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// A run begins; the process is set up.
    Ready {
        /// Its version's number.
        version: String,
    },
    /// It could not reach the gateway's tools.
    WithoutTools,
    /// The run is over.
    Result {
        /// How.
        end: RunEnd,
        /// The beginning of its final text.
        text: String,
    },
}

/// How Claude Code ended a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// In good order.
    Fine,
    /// With an error; its words, for people.
    Error(String),
}

/// Reads lines until the stream ends and hands on what matters.
pub(crate) async fn read<S, F>(mut stream: S, mut say: impl FnMut(Said) -> F)
where
    S: AsyncRead + Unpin,
    F: Future<Output = ()>,
{
    let mut piece = vec![0; 16 * 1024];
    let mut line = Line::default();
    loop {
        let got = match stream.read(&mut piece).await {
            Ok(0) => return,
            Ok(got) => got,
            Err(error) => return tracing::warn!(%error, "reading what Claude Code says failed"),
        };
        for part in piece.get(..got).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            line.take(part);
            if part.ends_with(b"\n")
                && let Some(said) = std::mem::take(&mut line).end()
            {
                say(said).await;
            }
        }
    }
}

/// A line that is being read.
#[derive(Debug)]
struct Line {
    scanner: Scanner,
    broken: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self { scanner: Scanner::new(PLAN), broken: false }
    }
}

impl Line {
    fn take(&mut self, part: &[u8]) {
        // A line that is no object is of no interest; the next one may be.
        self.broken = self.broken || self.scanner.feed(part).is_err();
    }

    fn end(self) -> Option<Said> {
        if self.broken { None } else { self.scanner.finish().ok().and_then(|found| said(&found)) }
    }
}

fn said(found: &Found) -> Option<Said> {
    match (found.value("type")?, found.value("subtype")) {
        ("system", Some("init")) => Some(ready(found)),
        ("result", _) => {
            let fine = found.value("is_error") == Some(false);
            let end = if fine { RunEnd::Fine } else { RunEnd::Error(detail(found)) };
            Some(Said::Result { end, text: answer(found.text("result").unwrap_or_default()) })
        }
        _ => None,
    }
}

fn ready(found: &Found) -> Said {
    let servers: Vec<serde_json::Value> = found.value("mcp_servers").unwrap_or_default();
    if servers.iter().any(|server| server["name"] == "gateway" && server["status"] == "failed") {
        return Said::WithoutTools;
    }
    let version = found.value::<String>("claude_code_version");
    Said::Ready { version: claude_code::number(version.as_deref().unwrap_or_default()).to_owned() }
}

/// The beginning of a JSON text that may be cut anywhere.
fn answer(raw: &[u8]) -> String {
    // An escape or a character that was cut has a dozen bytes at most.
    for cut in 0..=12.min(raw.len()) {
        let mut whole = raw[..raw.len() - cut].to_vec();
        if cut > 0 || !whole.ends_with(b"\"") {
            whole.push(b'"');
        }
        if let Ok(mut text) = serde_json::from_slice::<String>(&whole) {
            let kept =
                (0..=SUBSESSION_TEXT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(kept.unwrap_or(0));
            return text;
        }
    }
    String::new()
}

/// What an error's line says.
fn detail(found: &Found) -> String {
    let words = found.text("errors").into_iter().chain(found.text("result")).next();
    let kind = found.value::<String>("subtype").unwrap_or_default();
    match words {
        Some(words) => String::from_utf8_lossy(&words[..words.len().min(DETAIL_BYTES)])
            .trim_matches(['"', '[', ']'])
            .to_owned(),
        None => kind,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    async fn heard(lines: &str) -> Vec<Said> {
        let heard = RefCell::new(Vec::new());
        read(lines.as_bytes(), |said| {
            heard.borrow_mut().push(said);
            std::future::ready(())
        })
        .await;
        heard.into_inner()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn only_what_matters_is_heard() {
        let long = "x".repeat(300_000);
        let lines = format!(
            concat!(
                "{{\"type\":\"system\",\"subtype\":\"init\",\"mcp_servers\":[{{\"name\":\"gateway\",\"status\":\"connected\"}}],",
                "\"claude_code_version\":\"2.1.247\"}}\n",
                "not an object\n\n[1]\n",
                "{{\"type\":\"system\",\"subtype\":\"ui_invalidate\"}}\n",
                "{{\"type\":\"assistant\",\"message\":{{\"content\":\"{long}\\\"}}\"}}}}\n",
                "{{\"result\":\"{long}\",\"is_error\":false,\"type\":\"result\"}}\n",
                "{{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"errors\":[\"No conversation found\"]}}\n",
                "{{\"type\":\"result\",\"subtype\":\"error_max_turns\"}}\n",
                "{{\"type\":\"system\",\"subtype\":\"init\",\"mcp_servers\":[{{\"name\":\"gateway\",\"status\":\"failed\"}}]}}\n",
                "{{\"type\":\"result\",\"is_error\":false",
            ),
            long = long
        );
        assert_eq!(
            heard(&lines).await,
            [
                Said::Ready { version: "2.1.247".into() },
                Said::Result { end: RunEnd::Fine, text: "x".repeat(SUBSESSION_TEXT_BYTES) },
                Said::Result { end: RunEnd::Error("No conversation found".into()), text: String::new() },
                Said::Result { end: RunEnd::Error("error_max_turns".into()), text: String::new() },
                Said::WithoutTools,
            ]
        );
    }
}
