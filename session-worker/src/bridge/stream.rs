//! A model's answer in the exact grammar that Claude Code reads.
//!
//! `message_start`, then for each block `content_block_start`, one delta, `content_block_stop`, then `message_delta` with
//! the stop reason, then `message_stop`. Any other order breaks the run.
//! Invariant: usage is small and constant: honest numbers would make Claude Code want to summarise its history.

use std::fmt::Write;

use bytes::Bytes;
use protocol::{action::Action, turn::Reply};
use serde_json::{Value, json};

use super::messages::TOOL_PREFIX;

/// Keeps an open stream from being taken for a dead one.
pub(crate) const PING: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

/// Keeps an answer that is one object alive: white space before a JSON text means nothing.
pub(crate) const BLANK: &str = "\n";

/// Names one answer.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// The message's id.
    pub(crate) id: String,
    /// The model that Claude Code asked for.
    pub(crate) model: String,
}

/// What an answer says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    /// Its text.
    pub(crate) text: &'a str,
    /// Its tool calls.
    pub(crate) actions: &'a [Action],
}

impl<'a> From<&'a Reply> for Answer<'a> {
    fn from(reply: &'a Reply) -> Self {
        Self { text: reply.text.as_deref().unwrap_or_default(), actions: &reply.actions }
    }
}

impl Answer<'_> {
    fn stop_reason(&self) -> &'static str {
        if self.actions.is_empty() { "end_turn" } else { "tool_use" }
    }
}

fn event(out: &mut String, kind: &str, data: &Value) {
    // Writing into a String does not fail.
    let _ = write!(out, "event: {kind}\ndata: {data}\n\n");
}

fn usage() -> Value {
    json!({"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0})
}

/// The start of a stream, sent before anybody knows the answer.
pub(crate) fn start(head: &Head) -> Bytes {
    let mut out = String::new();
    event(
        &mut out,
        "message_start",
        &json!({"type": "message_start", "message": {
            "id": head.id, "type": "message", "role": "assistant", "model": head.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage(),
        }}),
    );
    out.push_str(PING);
    Bytes::from(out)
}

/// The rest of a stream: the whole reply.
pub(crate) fn rest(answer: Answer<'_>) -> Bytes {
    let mut out = String::new();
    let mut index = 0;
    if !answer.text.is_empty() {
        let start = json!({"type": "text", "text": ""});
        block(&mut out, index, &start, &json!({"type": "text_delta", "text": answer.text}));
        index += 1;
    }
    for action in answer.actions {
        let name = format!("{TOOL_PREFIX}{}", action.tool.name());
        let start = json!({"type": "tool_use", "id": action.action_id, "name": name, "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": action.input.text()});
        block(&mut out, index, &start, &delta);
        index += 1;
    }
    let delta = json!({"stop_reason": answer.stop_reason(), "stop_sequence": null});
    event(&mut out, "message_delta", &json!({"type": "message_delta", "delta": delta, "usage": usage()}));
    event(&mut out, "message_stop", &json!({"type": "message_stop"}));
    Bytes::from(out)
}

fn block(out: &mut String, index: usize, start: &Value, delta: &Value) {
    event(
        out,
        "content_block_start",
        &json!({"type": "content_block_start", "index": index, "content_block": start}),
    );
    event(
        out,
        "content_block_delta",
        &json!({"type": "content_block_delta", "index": index, "delta": delta}),
    );
    event(out, "content_block_stop", &json!({"type": "content_block_stop", "index": index}));
}

/// The reply as one object.
pub(crate) fn whole(head: &Head, answer: Answer<'_>) -> Bytes {
    let mut content = Vec::new();
    if !answer.text.is_empty() {
        content.push(json!({"type": "text", "text": answer.text}));
    }
    for action in answer.actions {
        let name = format!("{TOOL_PREFIX}{}", action.tool.name());
        content.push(
            json!({"type": "tool_use", "id": action.action_id, "name": name, "input": action.input.value()}),
        );
    }
    let message = json!({
        "id": head.id, "type": "message", "role": "assistant", "model": head.model, "content": content,
        "stop_reason": answer.stop_reason(), "stop_sequence": null, "usage": usage(),
    });
    Bytes::from(message.to_string())
}

/// The end of a stream whose turn will not be answered.
pub(crate) fn abandoned() -> Bytes {
    let mut out = String::new();
    event(&mut out, "error", &failure("api_error", "the session's run is over"));
    Bytes::from(out)
}

/// An error as the model's interface words it.
pub(crate) fn failure(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

#[cfg(test)]
mod tests {
    use protocol::{
        action::Action,
        canonical::CanonicalJson,
        id::{ActionId, TurnId},
        tool::ToolName,
    };

    use super::*;

    fn reply(text: Option<&str>, calls: usize) -> Reply {
        let action = |number: usize| Action {
            action_id: ActionId::from_bytes([u8::try_from(number).unwrap(); 16]),
            tool: ToolName::Read,
            input: CanonicalJson::of(&json!({"file_path": "/a \"b\"\n", "limit": number})).unwrap(),
        };
        Reply {
            reply_id: "r".parse().unwrap(),
            turn_id: TurnId::from_bytes([1; 16]),
            text: text.map(str::to_owned),
            actions: (0..calls).map(action).collect(),
        }
    }

    fn head() -> Head {
        Head { id: "msg_1".into(), model: "chatgpt-main".into() }
    }

    #[test]
    fn the_grammar_is_kept_to_the_byte() {
        let streamed = |reply: &Reply| {
            let parts = [start(&head()), rest(reply.into())].concat();
            String::from_utf8(parts).unwrap()
        };
        insta::assert_snapshot!("text_alone", streamed(&reply(Some("line one\nline \"two\" é"), 0)));
        insta::assert_snapshot!("text_and_two_calls", streamed(&reply(Some("Looking."), 2)));
        insta::assert_snapshot!("a_call_alone", streamed(&reply(None, 1)));
        let whole = whole(&head(), (&reply(Some("Looking."), 1)).into());
        insta::assert_snapshot!("one_object", String::from_utf8(whole.to_vec()).unwrap());
    }

    #[test]
    fn both_forms_say_the_same() {
        let reply = reply(Some("text"), 3);
        let whole: Value = serde_json::from_slice(&whole(&head(), (&reply).into())).unwrap();
        let stream = String::from_utf8(rest((&reply).into()).to_vec()).unwrap();
        let events: Vec<Value> = stream
            .split("\n\n")
            .filter_map(|event| event.split_once("data: "))
            .map(|(_, data)| serde_json::from_str(data).unwrap())
            .collect();
        let inputs: Vec<Value> = events
            .iter()
            .filter_map(|event| event["delta"]["partial_json"].as_str())
            .map(|input| serde_json::from_str(input).unwrap())
            .collect();
        let blocks = whole["content"].as_array().unwrap();
        assert_eq!(blocks.len(), 4);
        for (block, input) in blocks[1..].iter().zip(&inputs) {
            assert_eq!(&block["input"], input);
        }
        assert_eq!(events.last().unwrap()["type"], "message_stop");
        assert_eq!(whole["stop_reason"], "tool_use");
    }
}
