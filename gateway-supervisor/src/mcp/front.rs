//! The MCP server as its protocol library sees it: handshake, list, call, and nothing else.
//!
//! Invariant: six tools; any other name or method is a JSON-RPC error.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, DiscoverResult,
        ErrorCode, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};

use super::{
    call::Desk,
    describe::{INSTRUCTIONS, tools},
    sessions::Sessions,
    tool::SessionTool,
};

/// The revisions that are spoken, oldest first: two with a handshake, one without.
const VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// The methods that are served; notifications are taken and need no list.
pub(super) const METHODS: [&str; 5] = ["initialize", "server/discover", "ping", "tools/list", "tools/call"];

/// How long a client may keep the list of tools. It changes only with the gateway's release.
const LIST_TTL_MS: u64 = 3_600_000;

/// One request's view of the door.
pub(super) struct Front<S>(pub(super) Arc<Desk<S>>);

impl<S: Sessions> ServerHandler for Front<S> {
    fn get_info(&self) -> ServerConfig {
        let gateway = Implementation::new("claude-code-gateway", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(gateway)
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info()).with_ttl_ms(LIST_TTL_MS))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = ListToolsResult::with_all_items(tools().to_vec());
        if context.protocol_version().is_some_and(|version| !version.has_initialize()) {
            list.ttl_ms = Some(LIST_TTL_MS);
            list.cache_scope = Some(CacheScope::Private);
        }
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = SessionTool::named(&request.name) else {
            return Err(unknown_tool());
        };
        let arguments = request.arguments.unwrap_or_default();
        Ok(self.0.call(tool, arguments, &context).await.into())
    }

    /// A method that is served comes here only when its params do not have the method's form.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if METHODS.contains(&request.method.as_str()) {
            let text = match request.method.as_str() {
                "tools/call" => {
                    "params of tools/call: expected an object with `name`, a string, and `arguments`, an object"
                }
                _ => "the params do not have the form that this method takes",
            };
            return Err(ErrorData::invalid_params(text, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, METHOD_NOT_FOUND, None))
    }
}

/// What is said about a method that is not served.
pub(super) const METHOD_NOT_FOUND: &str =
    "method not found: this server has initialize, server/discover, ping, tools/list and tools/call";

fn unknown_tool() -> ErrorData {
    let names: Vec<_> = SessionTool::ALL.iter().map(|tool| tool.name()).collect();
    ErrorData::invalid_params(format!("unknown tool; this server has {}", names.join(", ")), None)
}
