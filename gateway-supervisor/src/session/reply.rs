//! `native_session_reply_and_wait`: ChatGPT's answer to the open turn, checked whole before anything happens.

use protocol::{
    action::Action,
    canonical::CanonicalJson,
    digest::Digest,
    failure::Failure,
    id::{ActionId, ReplyId, TurnId},
    limits::{REPLY_BYTES, REPLY_CALLS},
    tool::{ToolInput, ToolName},
    turn::Reply,
};

use super::{continue_::may_go_on, decision::Decision, refusal, state::State};
use crate::{ledger::record::Entry, mcp::input::ToolCall};

/// What a reply says, whole and within its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// Its text.
    text: Option<String>,
    /// Its calls.
    calls: Vec<(ToolName, CanonicalJson)>,
}

/// A reply that was not given before.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) key: ReplyId,
    pub(crate) input: Digest,
    pub(crate) turn: Option<TurnId>,
    pub(crate) content: Result<Content, Failure>,
}

/// Reads what a reply says, for a session with these tools.
pub(crate) fn content(
    text: Option<String>,
    calls: Option<Vec<ToolCall>>,
    allowed: &[ToolName],
) -> Result<Content, Failure> {
    let calls = calls.unwrap_or_default();
    let text = text.filter(|text| !text.trim().is_empty());
    if text.is_none() && calls.is_empty() {
        return Err(refusal::argument("text", "a reply has a text that is not blank, tool calls, or both"));
    }
    if calls.len() > REPLY_CALLS {
        let got = calls.len();
        return Err(refusal::argument(
            "tool_calls",
            format!("expected at most {REPLY_CALLS} calls, got {got}"),
        ));
    }
    let mut bytes = text.as_ref().map_or(0, String::len);
    let mut checked = Vec::with_capacity(calls.len());
    for (index, call) in calls.into_iter().enumerate() {
        let (tool, input) = checked_call(index + 1, &call, allowed)?;
        bytes += input.text().len();
        checked.push((tool, input));
    }
    if bytes > REPLY_BYTES {
        return Err(refusal::reply_too_large(bytes));
    }
    Ok(Content { text, calls: checked })
}

fn checked_call(
    index: usize,
    call: &ToolCall,
    allowed: &[ToolName],
) -> Result<(ToolName, CanonicalJson), Failure> {
    let tool = ToolName::named(&call.name)
        .filter(|tool| allowed.contains(tool))
        .ok_or_else(|| refusal::tool_not_allowed(&call.name, index, allowed))?;
    let blame =
        |why: String| refusal::argument("tool_calls", format!("call {index} ({}): {why}", tool.name()));
    ToolInput::parse(tool, &call.input).map_err(|invalid| blame(invalid.reason))?;
    let input = CanonicalJson::of(&call.input).map_err(|inexact| blame(inexact.to_string()))?;
    Ok((tool, input))
}

pub(crate) fn decide(state: &State, asked: Asked) -> Result<Decision, Failure> {
    may_go_on(state)?;
    let open = state.open_turn().map(|turn| turn.turn_id);
    let Some(turn_id) = open.filter(|open| asked.turn == Some(*open)) else {
        return Err(refusal::turn_stale(open));
    };
    let Content { text, calls } = asked.content?;
    one_writer(state, &calls)?;
    let actions =
        calls.into_iter().map(|(tool, input)| Action { action_id: ActionId::mint(), tool, input }).collect();
    let reply = Reply { reply_id: asked.key, turn_id, text, actions };
    Ok(Decision::Append(vec![Entry::Replied { input: asked.input, reply }]))
}

/// While a sub-session is active it alone writes and runs commands. What begins one stands alone in its reply, so that
/// nothing of the reply happens beside it.
fn one_writer(state: &State, calls: &[(ToolName, CanonicalJson)]) -> Result<(), Failure> {
    let starts = calls.iter().any(|(tool, _)| *tool == ToolName::SubagentStart);
    if starts && calls.len() > 1 {
        return Err(refusal::argument(
            "tool_calls",
            "deepseek_subagent_start must be the only call of its reply",
        ));
    }
    let Some(active) = state.active_subsession() else { return Ok(()) };
    let barred = calls.iter().find(|(tool, _)| match tool {
        ToolName::RunCommand
        | ToolName::Edit
        | ToolName::Write
        | ToolName::NotebookEdit
        | ToolName::SubagentStart => true,
        ToolName::Read
        | ToolName::FindFiles
        | ToolName::SearchText
        | ToolName::SubagentGet
        | ToolName::SubagentStop => false,
    });
    match barred {
        Some((tool, _)) => Err(refusal::subsession_active(*tool, active.id)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const READS: [ToolName; 3] = [ToolName::Read, ToolName::FindFiles, ToolName::SearchText];

    fn call(name: &str, input: serde_json::Value) -> ToolCall {
        ToolCall { name: name.into(), input }
    }

    fn read() -> ToolCall {
        call("Read", json!({"file_path": "/a"}))
    }

    #[test]
    fn a_reply_is_checked_whole_and_says_what_is_wrong() {
        for (text, calls, code, named) in [
            (None, None, "invalid_argument", "text"),
            (Some(" \n"), Some(vec![]), "invalid_argument", "text"),
            (None, Some(vec![read(); 33]), "invalid_argument", "33"),
            (None, Some(vec![read(), call("Bash", json!({}))]), "tool_not_allowed", "Bash"),
            (None, Some(vec![call("read", json!({}))]), "tool_not_allowed", "read"),
            (
                None,
                Some(vec![call("Write", json!({"file_path": "/a", "content": ""}))]),
                "tool_not_allowed",
                "Write",
            ),
            (
                None,
                Some(vec![read(), call("Read", json!({"file_path": "a"}))]),
                "invalid_argument",
                "call 2 (Read)",
            ),
            (None, Some(vec![call("Read", json!({"file_path": "/a", "x": 1}))]), "invalid_argument", "`x`"),
            (None, Some(vec![call("Read", json!([]))]), "invalid_argument", "call 1 (Read)"),
        ] {
            let failure = content(text.map(str::to_owned), calls, &READS).unwrap_err();
            assert_eq!(failure.code.text(), code, "{failure}");
            assert!(failure.message.contains(named), "{failure}");
        }
    }

    #[test]
    fn the_bound_counts_text_and_inputs_together() {
        let path = format!("/{}", "a".repeat(REPLY_BYTES / 2));
        let big = call("Read", json!({ "file_path": path }));
        assert!(content(None, Some(vec![big.clone()]), &READS).is_ok());
        let failure = content(Some("b".repeat(REPLY_BYTES / 2)), Some(vec![big]), &READS).unwrap_err();
        assert_eq!(failure.code.text(), "reply_too_large");
        assert!(content(Some("x".repeat(REPLY_BYTES)), None, &READS).is_ok());
        assert!(content(Some("x".repeat(REPLY_BYTES + 1)), None, &READS).is_err());
    }
}
