//! What all six calls have in common: their bounds, their keys, and what makes two calls the same.

use protocol::{
    canonical::CanonicalJson,
    digest::Digest,
    failure::Failure,
    id::{LeaseId, SessionId},
    limits::{KEY_CHARS, PROMPT_BYTES, WAIT_SECONDS},
};
use serde::Serialize;
use serde_json::Value;
use std::{str::FromStr, time::Duration};

use super::refusal;

/// The digest of a call's input: all arguments but the lease and the wait, as canonical JSON. An argument that is null is one
/// that was left out.
pub(crate) fn input_digest(input: &impl Serialize) -> Result<Digest, Failure> {
    let mut value = serde_json::to_value(input).map_err(|_| refusal::internal("reading the arguments"))?;
    if let Value::Object(fields) = &mut value {
        fields.remove("lease_id");
        fields.remove("wait_seconds");
        fields.retain(|_, argument| !argument.is_null());
    }
    let canonical = CanonicalJson::of(&value).map_err(|inexact| refusal::argument("tool_calls", inexact))?;
    Ok(canonical.digest())
}

/// A client's key.
pub(crate) fn key<K: FromStr>(field: &str, text: &str) -> Result<K, Failure>
where
    K::Err: std::fmt::Display,
{
    text.parse().map_err(|error: K::Err| refusal::argument(field, error))
}

/// How long a call waits.
pub(crate) fn wait(asked: Option<u64>, default: u64) -> Result<Duration, Failure> {
    let seconds = asked.unwrap_or(default);
    if seconds > WAIT_SECONDS {
        return Err(refusal::argument(
            "wait_seconds",
            format!("expected 0 to {WAIT_SECONDS}, got {seconds}"),
        ));
    }
    Ok(Duration::from_secs(seconds))
}

/// A prompt that is neither blank nor too long.
pub(crate) fn prompt(text: String) -> Result<String, Failure> {
    if text.trim().is_empty() {
        return Err(refusal::argument("prompt", "expected what Claude Code is to do, got a blank text"));
    }
    if text.len() > PROMPT_BYTES {
        let got = text.len();
        return Err(refusal::argument("prompt", format!("expected at most {PROMPT_BYTES} bytes, got {got}")));
    }
    Ok(text)
}

/// A short text for people; a blank one is none.
pub(crate) fn words(field: &str, text: Option<String>) -> Result<Option<String>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let chars = text.chars().count();
    if chars > KEY_CHARS {
        return Err(refusal::argument(
            field,
            format!("expected at most {KEY_CHARS} characters, got {chars}"),
        ));
    }
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return Err(refusal::argument(field, "it has control characters"));
    }
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// The session that a call names. What can't be an id of ours is a session that does not exist.
pub(crate) fn session(text: &str) -> Result<SessionId, Failure> {
    text.parse().map_err(|_| refusal::no_session(text))
}

/// The lease that a call presents. What can't be one of ours was never granted, so it is none.
pub(crate) fn lease(text: &str) -> Option<LeaseId> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::mcp::input::{ReplyInput, StatusInput, ToolCall};

    use super::*;

    fn reply(lease: &str, wait: Option<u64>, number: &str) -> ReplyInput {
        ReplyInput {
            native_session_id: "ses".into(),
            lease_id: lease.into(),
            turn_id: "turn".into(),
            reply_id: "r".into(),
            text: None,
            tool_calls: Some(vec![ToolCall {
                name: "Read".into(),
                input: serde_json::from_str(&format!("{{\"offset\":{number}}}")).unwrap(),
            }]),
            wait_seconds: wait,
        }
    }

    #[test]
    fn the_same_input_is_the_same_whatever_the_lease_the_wait_and_the_spelling_of_numbers() {
        let one = input_digest(&reply("a", None, "1")).unwrap();
        assert_eq!(one, input_digest(&reply("b", Some(3), "1.0")).unwrap());
        assert_ne!(one, input_digest(&reply("a", None, "2")).unwrap());
        assert!(input_digest(&reply("a", None, "12345678901234567890")).is_err());
    }

    #[test]
    fn every_bound_is_named() {
        assert!(wait(Some(51), 0).unwrap_err().message.contains("wait_seconds"));
        assert_eq!(wait(None, 30).unwrap(), Duration::from_secs(30));
        assert!(prompt(" \n".into()).unwrap_err().message.contains("prompt"));
        assert!(prompt("é".repeat(PROMPT_BYTES / 2)).is_ok());
        assert!(prompt("é".repeat(PROMPT_BYTES / 2 + 1)).is_err());
        assert!(words("session_label", Some("x".repeat(201))).unwrap_err().message.contains("session_label"));
        assert_eq!(words("session_label", Some("  ".into())).unwrap(), None);
        let input = StatusInput { native_session_id: "x".into(), lease_id: "y".into(), wait_seconds: None };
        assert_eq!(session(&input.native_session_id).unwrap_err().code.text(), "session_not_found");
        assert!(lease(&input.lease_id).is_none());
    }
}
