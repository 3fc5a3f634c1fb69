//! [M1–M5, M11] Six tools and nothing else, for whoever has the token, from this machine alone.

use std::process::Stdio;

use serde_json::{Value, json};
use tests::{
    CallError, Gateway,
    client::message_of,
    http::{self, Request},
};

const TOOLS: [&str; 6] = [
    "native_session_start",
    "native_session_continue",
    "native_session_recover",
    "native_session_reply_and_wait",
    "native_session_status",
    "native_session_stop",
];

/// A token is about four bytes of such text; three is the careful side.
const BYTES_PER_TOKEN: usize = 3;

#[test]
fn there_are_six_tools_described_for_a_model_and_always_the_same() {
    let gateway = Gateway::start();
    let listed = gateway.client.rpc("tools/list", &json!({})).unwrap()["tools"].clone();
    let tools = listed.as_array().unwrap();
    assert_eq!(tools.iter().map(|t| t["name"].as_str().unwrap()).collect::<Vec<_>>(), TOOLS);
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        let input = &tool["inputSchema"];
        assert_eq!(input["additionalProperties"], false, "{name}");
        for (field, schema) in input["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name} does not describe {field}");
            assert!(
                !["model", "provider", "endpoint", "api_key", "fallback"].contains(&field.as_str()),
                "{field}"
            );
        }
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        let text = tool.to_string();
        assert!(!text.contains("\"uint") && !text.contains("$ref") && !text.contains("$defs"), "{name}");
        assert!(text.len() / BYTES_PER_TOKEN < 5_000, "{name} has {} bytes", text.len());
        let looks = name == "native_session_status";
        let destroys = ["native_session_reply_and_wait", "native_session_stop"].contains(&name);
        assert_eq!(
            (&tool["annotations"]["readOnlyHint"], &tool["annotations"]["destructiveHint"]),
            (&json!(looks), &json!(destroys)),
            "{name}"
        );
        assert_eq!(tool["annotations"]["idempotentHint"], true, "{name}");
        assert_eq!(tool["annotations"]["openWorldHint"], false, "{name}");
    }
    assert!(listed.to_string().len() / BYTES_PER_TOKEN < 16_000);
    assert_eq!(gateway.client.rpc("tools/list", &json!({})).unwrap()["tools"], listed);
}

#[test]
fn every_other_tool_and_method_is_refused_by_the_server() {
    let gateway = Gateway::start();
    for name in ["Read", "Bash", "RunCommand", "deepseek_subagent_start", "native_session_delete", ""] {
        let refused = gateway.client.rpc("tools/call", &json!({"name": name, "arguments": {}}));
        assert!(matches!(refused, Err(CallError::Rpc { .. })), "{name}: {refused:?}");
    }
    for method in [
        "resources/list",
        "resources/templates/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "sampling/createMessage",
        "tasks/list",
        "no/such",
    ] {
        let refused = gateway.client.rpc(method, &json!({}));
        assert!(matches!(refused, Err(CallError::Rpc { code: -32601, .. })), "{method}: {refused:?}");
    }
    assert_eq!(gateway.client.rpc("ping", &json!({})).unwrap(), json!({}));
}

#[test]
fn both_eras_are_served_from_one_endpoint() {
    let gateway = Gateway::start();
    for revision in ["2025-06-18", "2025-11-25"] {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
        let response =
            gateway.client.post(hello.to_string().as_bytes(), &[("MCP-Protocol-Version", revision)]).unwrap();
        assert_eq!(message_of(&response).unwrap()["result"]["protocolVersion"], revision);
        assert!(response.header("mcp-session-id").is_none(), "no transport session is ever made");
    }
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let newest = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "server/discover")];
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
    let response = gateway.client.post(discover.to_string().as_bytes(), &newest).unwrap();
    let found = message_of(&response).unwrap();
    assert!(found["result"]["supportedVersions"].to_string().contains("2026-07-28"), "{found}");
}

#[test]
fn without_the_token_or_from_another_origin_nothing_happens() {
    let gateway = Gateway::start();
    let start = json!({"jsonrpc": "2.0", "id": "x-1", "method": "tools/call", "params": {
        "name": "native_session_start",
        "arguments": {"prompt": "p", "idempotency_key": "k", "working_directory": gateway.work}}});
    let body = start.to_string();
    let shorter = &gateway.client.token[1..];
    for authorization in [
        "",
        "Bearer",
        "Bearer wrong",
        &format!("Bearer {shorter}"),
        &format!("Basic {}", gateway.client.token),
    ] {
        let response = gateway.client.post(body.as_bytes(), &[("Authorization", authorization)]).unwrap();
        assert_eq!(response.status, 401, "{authorization}");
        assert!(!response.text().contains(&gateway.client.token));
        let error = message_of(&response).unwrap();
        assert!(error["error"]["message"].is_string() && error["id"] == "x-1", "{error}");
    }
    for header in [("Host", "evil.example"), ("Origin", "https://evil.example")] {
        let response = gateway.client.post(body.as_bytes(), &[header]).unwrap();
        assert!((400..=421).contains(&response.status), "{header:?}: {}", response.status);
    }
    assert_eq!(gateway.ctl(&["sessions"]).json["sessions"], json!([]));
}

#[test]
fn health_needs_no_token_and_tells_no_secret() {
    let gateway = Gateway::start();
    for path in ["/healthz", "/readyz"] {
        let request = Request { method: "GET", path, headers: Vec::new(), body: b"" };
        let response = http::exchange(gateway.client.address, &request).unwrap();
        assert_eq!(response.status, 200, "{path}");
        let text = response.text();
        assert!(
            !text.contains(&gateway.client.token) && !text.contains(gateway.state.to_str().unwrap()),
            "{text}"
        );
    }
}

#[test]
fn every_error_of_the_transport_is_a_json_rpc_error() {
    let gateway = Gateway::start();
    let large = format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"ping","params":{{"x":"{}"}}}}"#,
        "x".repeat(5 * 1024 * 1024)
    );
    for body in ["{", "", "[]", "null", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, &large] {
        let response = gateway.client.post(body.as_bytes(), &[]).unwrap();
        let shown = &body[..body.len().min(40)];
        let message: Value =
            serde_json::from_slice(&response.body).unwrap_or_else(|e| panic!("{shown}: {e}"));
        assert!(message["error"]["code"].is_i64(), "{shown}: {message}");
    }
    for method in ["GET", "PUT", "DELETE", "PATCH"] {
        let request = Request { method, path: "/mcp", headers: gateway.client.headers(&[]), body: b"" };
        let response = http::exchange(gateway.client.address, &request).unwrap();
        if response.status / 100 != 2 {
            let message: Value =
                serde_json::from_slice(&response.body).unwrap_or_else(|e| panic!("{method}: {e}"));
            assert!(message["error"]["code"].is_i64(), "{method}: {message}");
        }
    }
    assert_eq!(gateway.client.rpc("ping", &json!({})).unwrap(), json!({}));
}

#[test]
fn it_listens_on_loopback_only() {
    let gateway = Gateway::start();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "localhost", "7380"] {
        let output = gateway
            .command("gateway-supervisor")
            .arg("serve")
            .env("CLAUDE_TOOLS_LISTEN", address)
            .env("CLAUDE_TOOLS_STATE_DIR", gateway.work.join("other"))
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{address}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("CLAUDE_TOOLS_LISTEN"), "{address}: {said}");
    }
}
