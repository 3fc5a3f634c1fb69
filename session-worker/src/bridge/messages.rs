//! A request to the model, read as a stream: what kind it is and what tells it from another one.
//!
//! Invariant: the body is never held: it grows with the session's history to many megabytes.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};

use crate::top_level::{Listed, NotAnObject, Plan, Scanner, Wanted};

/// What the names of the gateway's tools begin with where Claude Code speaks of them.
pub(crate) const TOOL_PREFIX: &str = "mcp__gateway__";

/// What is kept of the list of tools: enough to see whose the first ones are.
const TOOLS_KEPT: usize = 16 * 1024;

/// A model's name is short; one that is longer is not repeated in the answer.
const MODEL_KEPT: usize = 256;

const PLAN: Plan = Plan {
    fields: &[
        Wanted { name: "model", bytes: MODEL_KEPT },
        Wanted { name: "stream", bytes: 8 },
        Wanted { name: "max_tokens", bytes: 24 },
        Wanted { name: "tools", bytes: TOOLS_KEPT },
    ],
    list: "messages",
};

/// Why a request can't be answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// The connection broke within the body.
    #[error("the request's body ended early")]
    Cut,
    /// The body is not a request.
    #[error("the request's body is not a JSON object with messages")]
    Malformed,
}

impl From<NotAnObject> for Unreadable {
    fn from(_: NotAnObject) -> Self {
        Self::Malformed
    }
}

/// How the answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As server-sent events.
    Stream,
    /// As one object.
    Whole,
}

/// What the request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The conversation itself: it offers the gateway's tools.
    Conversation,
    /// Something that Claude Code wants to know by the way: a title, a quota, whether anybody answers.
    Aside,
}

/// What a request is known by: its repetition after a broken connection has the same messages.
pub(crate) type Fingerprint = Listed;

/// A request, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// How the answer is wanted.
    pub(crate) form: Form,
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// What tells it from another one.
    pub(crate) fingerprint: Fingerprint,
    /// The model it names.
    pub(crate) model: String,
}

/// Reads a request's body.
///
/// # Errors
/// Where the body ends early or is not a request.
pub(crate) async fn read<B>(mut body: B) -> Result<Asked, Unreadable>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut scanner = Scanner::new(PLAN);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Unreadable::Cut)?;
        if let Some(bytes) = frame.data_ref() {
            scanner.feed(bytes)?;
        }
    }
    let found = scanner.finish()?;
    let fingerprint = found.list.filter(|list| list.elements > 0).ok_or(Unreadable::Malformed)?;
    let ours = format!("\"{TOOL_PREFIX}");
    let offers_tools =
        found.text("tools").is_some_and(|tools| memchr::memmem::find(tools, ours.as_bytes()).is_some());
    let probe = found.value::<u64>("max_tokens").is_some_and(|tokens| tokens <= 1);
    Ok(Asked {
        form: if found.value("stream") == Some(true) { Form::Stream } else { Form::Whole },
        purpose: if offers_tools && !probe { Purpose::Conversation } else { Purpose::Aside },
        fingerprint,
        model: found.value("model").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use serde_json::{Value, json};

    use super::*;

    async fn asked(body: &Value) -> Result<Asked, Unreadable> {
        read(Full::new(Bytes::from(body.to_string()))).await
    }

    fn conversation(messages: &Value) -> Value {
        json!({
            "model": "chatgpt-main", "messages": messages, "system": [{"type": "text", "text": "s"}],
            "tools": [{"name": "mcp__gateway__Read", "input_schema": {}}], "max_tokens": 32000, "stream": true,
        })
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_conversation_is_told_from_what_is_asked_by_the_way() {
        let main = conversation(&json!([{"role": "user", "content": "hello"}]));
        let read = asked(&main).await.unwrap();
        assert_eq!((read.form, read.purpose), (Form::Stream, Purpose::Conversation));
        assert_eq!(read.model, "chatgpt-main");
        for (field, value) in
            [("max_tokens", json!(1)), ("tools", json!([])), ("tools", json!([{"name": "Bash"}]))]
        {
            let mut aside = main.clone();
            aside[field] = value;
            assert_eq!(asked(&aside).await.unwrap().purpose, Purpose::Aside, "{aside}");
        }
        let mut whole = main;
        whole["stream"] = json!(false);
        assert_eq!(asked(&whole).await.unwrap().form, Form::Whole);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_repetition_has_the_same_fingerprint_and_a_new_request_another() {
        let one = json!({"role": "user", "content": "go on"});
        let first = asked(&conversation(&json!([one]))).await.unwrap().fingerprint;
        let mut again = conversation(&json!([one]));
        again["stream"] = json!(false);
        assert_eq!(asked(&again).await.unwrap().fingerprint, first);
        let longer = conversation(&json!([one, {"role": "assistant", "content": "x"}, one]));
        assert_ne!(asked(&longer).await.unwrap().fingerprint, first);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_not_a_request_is_refused() {
        for body in ["", "[]", "{\"messages\":[]}", "{}", "{\"messages\":[1]", "nonsense"] {
            let read = read(Full::new(Bytes::from(body))).await;
            assert!(matches!(read, Err(Unreadable::Malformed)), "{body}");
        }
    }
}
