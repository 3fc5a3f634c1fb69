//! A scripted ChatGPT: like the real connector it opens a new connection and shakes hands anew for every call.

use std::{io, net::SocketAddr};

use serde_json::{Value, json};

use crate::http::{self, Request, Response};

/// The newest protocol revision with a handshake; what the connector speaks.
const REVISION: &str = "2025-11-25";

/// A tool result with `isError`.
#[derive(Debug, Clone)]
pub struct ToolError {
    /// The stable code.
    pub code: String,
    /// The whole object.
    pub body: Value,
}

/// Why a call gave no session view.
#[derive(Debug)]
pub enum CallError {
    /// The gateway could not be reached, or the connection was cut.
    Io(io::Error),
    /// The answer is no JSON-RPC message.
    Http(Response),
    /// A JSON-RPC error.
    Rpc {
        /// Its code.
        code: i64,
        /// Its text.
        message: String,
    },
    /// The tool said no.
    Tool(ToolError),
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A client of one gateway. It stays good over a restart: address and token do.
#[derive(Debug, Clone)]
pub struct Client {
    /// Where the gateway listens.
    pub address: SocketAddr,
    /// The bearer token.
    pub token: String,
}

impl Client {
    /// One HTTP exchange on `/mcp` with the headers of an MCP client, those in `extra` added or (`Authorization`) put in place.
    ///
    /// # Errors
    /// Where the connection fails.
    pub fn post(&self, body: &[u8], extra: &[(&str, &str)]) -> io::Result<Response> {
        let headers = self.headers(extra);
        http::exchange(self.address, &Request { method: "POST", path: "/mcp", headers, body })
    }

    /// The headers of an MCP client.
    #[must_use]
    pub fn headers(&self, extra: &[(&str, &str)]) -> Vec<(String, String)> {
        let given = |name: &str| extra.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let bearer = format!("Bearer {}", self.token);
        let usual = [
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", REVISION),
            ("Authorization", bearer.as_str()),
        ];
        usual
            .iter()
            .filter(|(name, _)| !given(name))
            .chain(extra)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// The result of a method, after a handshake on connections of its own.
    ///
    /// # Errors
    /// Where the gateway answers with an error or not at all.
    pub fn rpc(&self, method: &str, params: &Value) -> Result<Value, CallError> {
        let hello = json!({
            "protocolVersion": REVISION, "capabilities": {},
            "clientInfo": {"name": "openai-mcp", "version": "1"},
        });
        self.request("initialize", &hello)?;
        self.post(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &[])?;
        self.request(method, params)
    }

    /// The result of a method, without a handshake.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub fn request(&self, method: &str, params: &Value) -> Result<Value, CallError> {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let response = self.post(message.to_string().as_bytes(), &[])?;
        let Some(answer) = message_of(&response) else { return Err(CallError::Http(response)) };
        assert_eq!(answer["id"], 7, "the answer to another request: {answer}");
        if let Some(error) = answer.get("error") {
            return Err(CallError::Rpc {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
            });
        }
        Ok(answer["result"].clone())
    }

    /// One tool call: the session view.
    ///
    /// # Errors
    /// Where the tool, the gateway or the connection says no.
    ///
    /// # Panics
    /// Where the result breaks the contract that all results have.
    pub fn call(&self, tool: &str, arguments: &Value) -> Result<Value, CallError> {
        let result = self.rpc("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let text = result["content"][0]["text"].as_str().expect("a result has a text");
        let body = result["structuredContent"].clone();
        let from_text: Value = serde_json::from_str(text).expect("the text is JSON");
        if result["isError"] == true {
            for field in ["code", "message", "next"] {
                assert!(from_text[field].is_string(), "an error lacks {field}: {text}");
            }
            assert!(
                from_text["retryable"].is_boolean(),
                "an error does not say whether to try again: {text}"
            );
            let code = from_text["code"].as_str().unwrap_or_default().to_owned();
            return Err(CallError::Tool(ToolError { code, body: from_text }));
        }
        assert_eq!(body, from_text, "the text and the structured content differ");
        Ok(body)
    }

    /// The error of a tool call that must fail.
    ///
    /// # Panics
    /// Where it succeeds, or fails on its way to the tool.
    #[must_use]
    pub fn refused(&self, tool: &str, arguments: &Value) -> ToolError {
        match self.call(tool, arguments) {
            Err(CallError::Tool(error)) => error,
            other => panic!("{tool} was to be refused by the tool, got {other:?}"),
        }
    }
}

/// The JSON-RPC message in a response: its body, or the last event of its stream.
#[must_use]
pub fn message_of(response: &Response) -> Option<Value> {
    let text = response.text();
    let json = if response.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")) {
        text.lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim)
            .rfind(|data| !data.is_empty())?
            .to_owned()
    } else {
        text
    };
    let message: Value = serde_json::from_str(&json).ok()?;
    (message["jsonrpc"] == "2.0" && (message.get("result").is_some() || message.get("error").is_some()))
        .then_some(message)
}
