//! The MCP server that Claude Code takes its tools from.
//!
//! Invariant: nothing is answered without the session's own secret.
//! Invariant: a result's text comes from a recorded receipt; everything else is a protocol error [T5, T6].

#[cfg(test)]
mod tests;

use std::{fmt::Display, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Body as HttpBody;
use protocol::{
    id::ActionId,
    limits::MCP_BODY_BYTES,
    receipt::Receipt,
    secret::Token,
    tool::{ToolKind, ToolName},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities,
        ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::Value;

use super::{
    carry_out::{Call, Executor},
    delegated::Delegated,
    tools::Tools,
};
use crate::server::Body;

/// Claude Code gives up on a call that is silent for 60 seconds; signs of life come well within.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// Where Claude Code puts the id of the `tool_use` block that a call belongs to.
const TOOL_USE_ID: &str = "claudecode/toolUseId";

/// Tells Claude Code to take results of this many characters whole instead of a preview.
const MAX_RESULT_CHARS: (&str, u64) = ("anthropic/maxResultSizeChars", 200_000);

/// The tools' end of the session's port. A clone is the same endpoint.
#[derive(Clone)]
pub(crate) struct Endpoint {
    secret: Arc<Token>,
    service: StreamableHttpService<Front, NeverSessionManager>,
}

impl Endpoint {
    /// An endpoint that offers those of `allowed` that `hands` carry out, to whoever knows `secret`.
    pub(crate) fn new(secret: Token, allowed: &[ToolName], hands: impl Into<Hands>) -> Self {
        let offered = allowed.iter().copied().filter(|tool| Tools::offers(*tool)).collect();
        let front = Front { offered, hands: hands.into() };
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(false)
            .with_sse_keep_alive(Some(SIGN_OF_LIFE))
            .with_sse_retry(None)
            .with_max_request_body_bytes(MCP_BODY_BYTES)
            .enforce_origin_validation();
        let service = StreamableHttpService::new(
            move || Ok(front.clone()),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        Self { secret: Arc::new(secret), service }
    }

    /// Answers a request on `/mcp`.
    pub(crate) async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send + 'static,
        B::Error: Display,
    {
        if !self.knows(&request) {
            tracing::warn!(method = %request.method(), "refused a request without the executor's secret");
            return unauthorized();
        }
        self.service.handle(request).await
    }

    fn knows<B>(&self, request: &Request<B>) -> bool {
        request
            .headers()
            .get(header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().split_at_checked(b"Bearer ".len()))
            .is_some_and(|(scheme, presented)| {
                scheme.eq_ignore_ascii_case(b"Bearer ") && self.secret.matches(presented)
            })
    }
}

fn unauthorized() -> Response<Body> {
    const TEXT: &[u8] =
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the executor's secret is missing or wrong"}}"#;
    let mut response = Response::new(Full::new(Bytes::from_static(TEXT)).boxed());
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    headers.insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}

/// What rmcp asks.
#[derive(Clone)]
struct Front {
    offered: Arc<[ToolName]>,
    hands: Hands,
}

/// Who carries calls out.
#[derive(Debug, Clone)]
pub(crate) enum Hands {
    /// The session: only actions of the reply that is being carried out.
    Session(Executor),
    /// A sub-session: whatever its tools take.
    Subsession(Delegated),
}

impl From<Executor> for Hands {
    fn from(executor: Executor) -> Self {
        Self::Session(executor)
    }
}

impl From<Delegated> for Hands {
    fn from(delegated: Delegated) -> Self {
        Self::Subsession(delegated)
    }
}

impl Front {
    /// A call by the id that it carries, its tool and its input.
    fn call_of(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(String, ToolName, Value), ErrorData> {
        let named = ToolName::named(&request.name).filter(|tool| self.offered.contains(tool));
        let Some(tool) = named else {
            return Err(refused(&request.name, "this session has no such tool; nothing was run"));
        };
        let Some(id) = context.meta.get(TOOL_USE_ID).and_then(Value::as_str) else {
            return Err(refused(&request.name, "the call carries no action's id; nothing was run"));
        };
        let input = Value::Object(request.arguments.unwrap_or_default());
        Ok((id.to_owned(), tool, input))
    }
}

impl ServerHandler for Front {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("gateway", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.offered.iter().copied().map(described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.clone();
        let (id, tool, input) = self.call_of(request, &context)?;
        let outcome = match &self.hands {
            Hands::Session(executor) => {
                let Ok(action_id) = id.parse::<ActionId>() else {
                    return Err(refused(&name, "the call carries no action's id; nothing was run"));
                };
                showing_life(&context, executor.call(Call { action_id, tool, input })).await
            }
            Hands::Subsession(delegated) => showing_life(&context, delegated.call(&id, tool, input)).await,
        };
        match outcome {
            Ok(receipt) => Ok(CallToolResponse::from(result(receipt.get()))),
            Err(reason) => Err(refused(&name, &reason.to_string())),
        }
    }
}

/// Waits for `work`, with a progress notification now and then where the caller wants them.
async fn showing_life<T>(context: &RequestContext<RoleServer>, work: impl Future<Output = T>) -> T {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    let mut work = std::pin::pin!(work);
    let mut progress = 0.0;
    loop {
        match tokio::time::timeout(SIGN_OF_LIFE, &mut work).await {
            Ok(outcome) => return outcome,
            Err(_) => {
                progress += 1.0;
                let sign = ProgressNotificationParam::new(token.clone(), progress);
                // Where the caller is gone the work goes on all the same.
                let _ = context.peer.notify_progress(sign).await;
            }
        }
    }
}

fn result(receipt: &Receipt) -> CallToolResult {
    let content = vec![ContentBlock::text(receipt.content.clone())];
    if receipt.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

fn refused(tool: &str, reason: &str) -> ErrorData {
    let tool: String = tool.chars().take(64).collect();
    tracing::warn!(tool, reason, "refused a tool call");
    ErrorData::invalid_request(format!("calling {tool}: {reason}"), None)
}

fn described(tool: ToolName) -> Tool {
    let Value::Object(schema) = tool.input_schema() else { return Tool::default() };
    let only_reads = tool.kind() == ToolKind::Reads;
    let mut meta = MetaObject::default();
    meta.insert(MAX_RESULT_CHARS.0.to_owned(), Value::from(MAX_RESULT_CHARS.1));
    Tool::new(tool.name(), tool.description(), Arc::new(schema))
        .with_annotations(
            ToolAnnotations::new()
                .read_only(only_reads)
                .destructive(!only_reads)
                .idempotent(only_reads)
                .open_world(false),
        )
        .with_meta(meta)
}
