//! What a refused HTTP request gets: a JSON-RPC error with the request's id, whatever the status.
//!
//! A client in between (a tunnel) passes an error body on only if it is a JSON-RPC error with the request's own id.
//!
//! Invariant: no text here repeats a header's value: the bearer token stands in one of them.

use std::{borrow::Cow, convert::Infallible};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use serde_json::{Value, json};

use super::envelope::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Id};

/// A response's body.
pub(super) type Body = BoxBody<Bytes, Infallible>;

/// Why a request is refused before it reaches a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: i32,
    pub(super) text: Cow<'static, str>,
}

impl Refusal {
    /// A refusal by HTTP's own rules. Its code is -31000 less the status: outside the range that JSON-RPC and MCP keep for themselves.
    pub(super) fn http(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code: -31000 - i32::from(status.as_u16()), text: text.into() }
    }

    /// A refusal by JSON-RPC's rules.
    pub(super) fn rpc(status: StatusCode, code: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, text: text.into() }
    }

    /// The response.
    pub(super) fn response(&self, id: Option<&Id>) -> Response<Body> {
        let error =
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": self.code, "message": self.text } });
        let mut response = json_response(self.status, &error);
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers
                    .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"gateway\""));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
            }
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// A response with a JSON body.
pub(super) fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    with_body(status, Bytes::from(body.to_string()))
}

/// The response to a notification.
pub(super) fn accepted() -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn with_body(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Makes an error response of the protocol library one with a JSON-RPC body and the request's id.
pub(super) async fn conformed(response: Response<Body>, id: &Id) -> Response<Body> {
    let status = response.status();
    if status.is_success() {
        return response;
    }
    let (_, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(never) => match never {},
    };
    if let Ok(mut error) = serde_json::from_slice::<Value>(&bytes)
        && error.get("error").is_some_and(Value::is_object)
    {
        error["id"] = json!(id);
        return json_response(status, &error);
    }
    let text = String::from_utf8_lossy(&bytes);
    let refusal = match status {
        // The content type was checked before: what is left is a body whose inside can't be read, such as one that nests too deep.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Refusal::rpc(
            StatusCode::BAD_REQUEST,
            INVALID_PARAMS,
            "the message can't be read: it nests deeper than 128 levels, holds a number out of range, or its params do not have the form of its method",
        ),
        StatusCode::BAD_REQUEST => Refusal::rpc(status, INVALID_REQUEST, format!("invalid request: {text}")),
        _ if status.is_server_error() => {
            tracing::error!(%status, %text, "the protocol library failed to answer");
            Refusal::rpc(
                status,
                INTERNAL_ERROR,
                "the gateway could not answer; make the same call again with the same key",
            )
        }
        _ => Refusal::http(status, text.into_owned()),
    };
    refusal.response(Some(id))
}
