//! One HTTP request: which door it knocks at, whether it may come in, and what it is answered.
//!
//! Invariant: every answer on `/mcp` that is not a success is a JSON-RPC error, with the request's id where it has one.
//! Invariant: there is no transport session: no request depends on another, and a session id that a client sends is ignored.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::Full;
use hyper::body::Incoming;
use rmcp::{
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    body,
    call::Desk,
    config::{DoorConfig, ResponseMode},
    envelope::{self, Envelope, Id},
    front::{self, Front},
    gate, numbers,
    refusal::{self, Body, Refusal, json_response},
    sessions::Sessions,
    token::Bearer,
};

/// Travels with a request whose body holds an integer that was rounded when it was read.
#[derive(Debug, Clone)]
pub(super) struct Inexact(pub(super) String);

/// How much of such an integer is repeated: enough to find it.
const INEXACT_CHARS: usize = 40;

/// Everything that a request needs.
pub(super) struct Transport<S: Sessions> {
    service: StreamableHttpService<Front<S>, NeverSessionManager>,
    bearer: Arc<Bearer>,
    config: DoorConfig,
    drain: CancellationToken,
}

impl<S: Sessions> Transport<S> {
    /// `cut` ends every response that is still open; it is for after the drain.
    pub(super) fn new(
        desk: Arc<Desk<S>>,
        bearer: Arc<Bearer>,
        config: DoorConfig,
        cut: CancellationToken,
    ) -> Self {
        let drain = desk.drain.clone();
        let framing = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(config.response == ResponseMode::Json)
            .with_max_request_body_bytes(config.bounds.body_bytes)
            .with_sse_keep_alive(Some(config.bounds.progress))
            .with_cancellation_token(cut);
        let service = StreamableHttpService::new(
            move || Ok(Front(Arc::clone(&desk))),
            Arc::new(NeverSessionManager::default()),
            framing,
        );
        Self { service, bearer, config, drain }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        Ok(match parts.uri.path() {
            "/mcp" => self.mcp(parts, body).await,
            "/healthz" => health(&parts.method, StatusCode::OK, "ok"),
            "/readyz" if self.drain.is_cancelled() => {
                health(&parts.method, StatusCode::SERVICE_UNAVAILABLE, "draining")
            }
            "/readyz" => health(&parts.method, StatusCode::OK, "ready"),
            _ => {
                let begin = body::skim(body, self.config.bounds.body).await;
                let refusal = Refusal::http(StatusCode::NOT_FOUND, "no such path: the MCP endpoint is /mcp");
                refusal.response(envelope::id_in(&begin).as_ref())
            }
        })
    }

    async fn mcp(&self, parts: Parts, body: Incoming) -> Response<Body> {
        let bounds = &self.config.bounds;
        if let Err(refusal) = gate::check(&parts, &self.bearer) {
            let begin = body::skim(body, bounds.body).await;
            return refusal.response(envelope::id_in(&begin).as_ref());
        }
        let bytes = match body::take(body, bounds.body_bytes, bounds.body).await {
            Ok(bytes) => bytes,
            Err(not) => return not.refusal.response(envelope::id_in(&not.begin).as_ref()),
        };
        match envelope::read(&bytes) {
            Envelope::Malformed { id, code, text } => {
                Refusal::rpc(StatusCode::BAD_REQUEST, code, text).response(id.as_ref())
            }
            // Nothing is remembered between requests, so a notification has nothing to change.
            Envelope::Notification => refusal::accepted(),
            Envelope::Request { id, method } if !front::METHODS.contains(&method.as_str()) => Refusal::rpc(
                unknown_status(&parts.headers),
                envelope::METHOD_NOT_FOUND,
                front::METHOD_NOT_FOUND,
            )
            .response(Some(&id)),
            Envelope::Request { id, .. } => self.serve(parts, bytes, &id).await,
        }
    }

    async fn serve(&self, mut parts: Parts, bytes: Bytes, id: &Id) -> Response<Body> {
        // The envelope was read from it, so it is UTF-8.
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        if let Some(number) = numbers::inexact(text) {
            parts.extensions.insert(Inexact(number.chars().take(INEXACT_CHARS).collect()));
        }
        accept_both(&mut parts.headers);
        let request = Request::from_parts(parts, Full::new(bytes));
        refusal::conformed(self.service.handle(request).await, id).await
    }
}

/// From 2026-07-28 on an unknown method is also HTTP's 404; before, JSON-RPC's error alone.
fn unknown_status(headers: &HeaderMap) -> StatusCode {
    let version =
        headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if version >= ProtocolVersion::V_2026_07_28.as_str() { StatusCode::NOT_FOUND } else { StatusCode::OK }
}

/// A client that takes anything takes both kinds; the protocol library wants to see them named.
fn accept_both(headers: &mut HeaderMap) {
    let anything =
        headers.get_all(header::ACCEPT).iter().all(|value| value.to_str().is_ok_and(|v| v.trim() == "*/*"));
    if anything {
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    }
}

fn health(method: &Method, status: StatusCode, word: &str) -> Response<Body> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return json_response(status, &json!({ "status": word }));
    }
    let mut response =
        Refusal::http(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here").response(None);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}
