//! A scripted ChatGPT's view of one session.

use std::{path::Path, time::Duration};

use serde_json::{Map, Value, json};

use crate::{CallError, Client, key, until};

/// Longer than Claude Code needs on a busy machine for anything it does on its own.
const PATIENCE: Duration = Duration::from_secs(90);

/// One session, with the newest view of it.
#[derive(Debug, Clone)]
pub struct Session {
    /// How the gateway is reached.
    pub client: Client,
    /// The newest view.
    pub view: Value,
    /// The session's id.
    pub id: String,
    /// What `recover` needs.
    pub recovery_token: String,
}

impl Session {
    /// Starts a session in `directory` and waits for its first turn.
    ///
    /// # Panics
    /// Where it does not start.
    #[must_use]
    pub fn start(client: &Client, directory: &Path, prompt: &str) -> Self {
        let view = client
            .call(
                "native_session_start",
                &json!({"prompt": prompt, "idempotency_key": key(), "working_directory": directory, "wait_seconds": 50}),
            )
            .unwrap();
        Self::of(client, view)
    }

    /// Starts a session with this profile in `directory` and waits for its first turn.
    ///
    /// # Panics
    /// Where it does not start.
    #[must_use]
    pub fn start_as(client: &Client, directory: &Path, profile: &str) -> Self {
        let start = json!({
            "prompt": "p", "idempotency_key": key(), "working_directory": directory,
            "capability_profile": profile, "wait_seconds": 50,
        });
        let mut session = Self::of(client, client.call("native_session_start", &start).unwrap());
        session.turn();
        session
    }

    /// The session that a `start` gave.
    ///
    /// # Panics
    /// Where the view is not one of a start.
    #[must_use]
    pub fn of(client: &Client, view: Value) -> Self {
        let text =
            |field: &str| view[field].as_str().unwrap_or_else(|| panic!("no {field} in {view}")).to_owned();
        let (id, recovery_token) = (text("native_session_id"), text("recovery_token"));
        Self { client: client.clone(), view, id, recovery_token }
    }

    /// A field of the newest view as text; empty where it is none.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.view[field].as_str().unwrap_or_default()
    }

    /// One call with this session's id and lease and `more`, which may replace them.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call(&mut self, tool: &str, more: &Value) -> Result<&Value, CallError> {
        self.view = self.client.call(tool, &self.arguments(more))?;
        Ok(&self.view)
    }

    /// `more` with this session's id and lease, where it has none of its own.
    ///
    /// # Panics
    /// Where `more` is no object.
    #[must_use]
    pub fn arguments(&self, more: &Value) -> Value {
        let mut arguments = Map::new();
        arguments.insert("native_session_id".into(), json!(self.id));
        arguments.insert("lease_id".into(), self.view["lease_id"].clone());
        arguments.extend(more.as_object().expect("arguments are an object").clone());
        Value::Object(arguments)
    }

    /// A look, waiting up to `seconds` for a change.
    ///
    /// # Panics
    /// Where it is refused.
    pub fn status(&mut self, seconds: u64) -> &Value {
        self.call("native_session_status", &json!({"wait_seconds": seconds})).unwrap()
    }

    /// The pending turn, waited for.
    ///
    /// # Panics
    /// Where none comes.
    pub fn turn(&mut self) -> Value {
        let mut first = true;
        until("a pending turn", PATIENCE, || {
            if !std::mem::take(&mut first) {
                self.status(10);
            }
            Some(self.view["pending_turn"].clone()).filter(|turn| !turn.is_null())
        })
    }

    /// Answers the pending turn with tool calls and gives their results.
    ///
    /// # Panics
    /// Where the reply is refused or no next turn comes.
    pub fn act(&mut self, calls: &[(&str, Value)]) -> Vec<Value> {
        let calls: Vec<_> = calls.iter().map(|(name, input)| json!({"name": name, "input": input})).collect();
        let turn = self.turn()["turn_id"].clone();
        self.call(
            "native_session_reply_and_wait",
            &json!({"turn_id": turn, "reply_id": key(), "tool_calls": calls, "wait_seconds": 50}),
        )
        .unwrap();
        self.turn()["tool_results"].as_array().cloned().unwrap_or_default()
    }

    /// Answers the pending turn with text alone and waits for the end of the run: its text.
    ///
    /// # Panics
    /// Where the run does not end.
    pub fn finish(&mut self, text: &str) -> String {
        let turn = self.turn()["turn_id"].clone();
        self.call(
            "native_session_reply_and_wait",
            &json!({"turn_id": turn, "reply_id": key(), "text": text, "wait_seconds": 50}),
        )
        .unwrap();
        self.wait_for_status("idle");
        self.view["last_result"]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the session has this status.
    ///
    /// # Panics
    /// Where it does not get there.
    pub fn wait_for_status(&mut self, status: &str) {
        until(&format!("status {status}"), PATIENCE, || {
            (self.view["status"] == status || self.status(5)["status"] == status).then_some(())
        });
    }

    /// The next prompt.
    ///
    /// # Panics
    /// Where it is refused.
    pub fn go_on(&mut self, prompt: &str) {
        self.call(
            "native_session_continue",
            &json!({"prompt": prompt, "idempotency_key": key(), "wait_seconds": 50}),
        )
        .unwrap();
    }

    /// A new lease.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn recover(&mut self, recovery_id: &str, seconds: u64) -> Result<&Value, CallError> {
        let arguments = json!({
            "native_session_id": self.id, "recovery_token": self.recovery_token,
            "recovery_id": recovery_id, "wait_seconds": seconds,
        });
        self.view = self.client.call("native_session_recover", &arguments)?;
        Ok(&self.view)
    }

    /// The end.
    ///
    /// # Panics
    /// Where it is refused.
    pub fn stop(&mut self) -> &Value {
        self.call("native_session_stop", &json!({"request_id": key(), "reason": "done"})).unwrap()
    }
}
