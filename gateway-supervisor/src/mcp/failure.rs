//! From what a session answers to the result of a tool call.
//!
//! Invariant: every outcome has a result: a view, or `isError` with `{code, message, retryable, next}`.
//! Invariant: `structuredContent` is always whole; only the text beside it may be shortened.

use protocol::failure::{ErrorCode, Failure};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

use super::tool::SessionTool;
use crate::session::view::SessionView;

/// What stands as text beside the structured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextMode {
    /// The same JSON.
    #[default]
    Full,
    /// The same JSON, with long contents replaced by where they stand.
    Summary,
}

/// Texts up to this length stay in a summary: ids, paths, `next` and errors are below it, file contents above.
const SUMMARY_BYTES: usize = 1024;

/// The result of a call.
pub(super) fn result(outcome: Result<Box<SessionView>, Failure>, mode: TextMode) -> CallToolResult {
    match outcome {
        Ok(view) => shown(serde_json::to_value(&view), mode, CallToolResult::success),
        Err(failure) => shown(serde_json::to_value(&failure), mode, CallToolResult::error),
    }
}

fn shown(
    json: serde_json::Result<Value>,
    mode: TextMode,
    make: fn(Vec<ContentBlock>) -> CallToolResult,
) -> CallToolResult {
    match json {
        Ok(json) => {
            let text = match mode {
                TextMode::Full => json.to_string(),
                TextMode::Summary => summary(&json).to_string(),
            };
            let mut result = make(vec![ContentBlock::text(text)]);
            result.structured_content = Some(json);
            result
        }
        // A view is made of strings, numbers and maps with string keys, so this is never reached; and if it were, the caller hears it.
        Err(error) => CallToolResult::error(vec![ContentBlock::text(format!(
            "internal: writing the result as JSON failed: {error}"
        ))]),
    }
}

fn summary(json: &Value) -> Value {
    let mut short = json.clone();
    shorten(&mut short, &mut "structuredContent".to_owned());
    short
}

fn shorten(value: &mut Value, at: &mut String) {
    let length = at.len();
    match value {
        Value::String(text) if text.len() > SUMMARY_BYTES => {
            *text = format!("({} bytes, in {at})", text.len());
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                at.push_str(&format!("[{index}]"));
                shorten(item, at);
                at.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                at.push('.');
                at.push_str(name);
                shorten(field, at);
                at.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The call holds an integer that can't be passed on as it was written.
pub(super) fn inexact(tool: SessionTool, number: &str) -> Failure {
    let name = tool.name();
    Failure::fixed(
        ErrorCode::InvalidArgument,
        format!(
            "{name} was not run, and nothing changed: the number {number} in its arguments is larger than a JSON client can hold"
        ),
        format!("call {name} again with that number as a string"),
    )
}

/// A call's task panicked.
pub(super) fn panicked(tool: SessionTool) -> Failure {
    let name = tool.name();
    Failure::passing(
        ErrorCode::Internal,
        format!("{name} ended by a fault of the gateway; what it had recorded is kept"),
        format!(
            "make the same {name} call again with the same key; if it fails again, ask the user to look at the gateway's log"
        ),
    )
}

/// A call did not end in time.
pub(super) fn overdue(tool: SessionTool) -> Failure {
    let name = tool.name();
    Failure::passing(
        ErrorCode::Internal,
        format!("{name} did not end in time; its work goes on"),
        format!(
            "make the same {name} call again with the same key: it joins the work, nothing is done twice"
        ),
    )
}

/// Too many calls wait.
pub(super) fn too_many(tool: SessionTool, most: usize) -> Failure {
    let name = tool.name();
    Failure::passing(
        ErrorCode::LimitReached,
        format!("{name} was not run, and nothing changed: {most} calls wait at the gateway already"),
        format!(
            "let other calls end, then make the same {name} call again; with wait_seconds 0 it needs no place"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_becomes_an_error_result_with_its_four_fields() {
        for code in ErrorCode::ALL {
            let failure = Failure::fixed(*code, "tried", "call that");
            let result = result(Err(failure), TextMode::Full);
            assert_eq!(result.is_error, Some(true));
            let body = result.structured_content.clone().unwrap_or_default();
            assert_eq!(body["code"], code.text());
            assert_eq!(
                (&body["message"], &body["retryable"], &body["next"]),
                (&"tried".into(), &false.into(), &"call that".into())
            );
            let text = serde_json::to_value(&result.content[0])
                .map(|block| block["text"].clone())
                .unwrap_or_default();
            assert_eq!(text, body.to_string());
        }
    }

    #[test]
    fn a_summary_says_where_the_long_content_stands() {
        let long = "é".repeat(SUMMARY_BYTES);
        let whole = serde_json::json!({"a": {"b": ["short", long]}, "c": 1});
        let short = summary(&whole);
        assert_eq!(short["a"]["b"][0], "short");
        assert_eq!(short["a"]["b"][1], "(2048 bytes, in structuredContent.a.b[1])");
        assert_eq!(short["c"], 1);
    }
}
