//! (M1) to (M5): six tools and nothing else, in both eras; who may come in.

use serde_json::{Value, json};

use super::rig::{LEGACY, MODERN, Rig};
use crate::mcp::{
    config::{DoorConfig, ResponseMode},
    failure::TextMode,
    tool::SessionTool,
};

const ERAS: [&str; 2] = [LEGACY, MODERN];

fn arguments(tool: SessionTool, id: &str) -> Value {
    match tool {
        SessionTool::Start => json!({"prompt": id, "idempotency_key": "k", "working_directory": "/w"}),
        SessionTool::Continue => {
            json!({"native_session_id": id, "lease_id": "l", "prompt": "p", "idempotency_key": "k"})
        }
        SessionTool::Recover => json!({"native_session_id": id, "recovery_token": "t", "recovery_id": "k"}),
        SessionTool::Reply => {
            json!({"native_session_id": id, "lease_id": "l", "turn_id": "t", "reply_id": "k", "text": "x"})
        }
        SessionTool::Status => json!({"native_session_id": id, "lease_id": "l"}),
        SessionTool::Stop => json!({"native_session_id": id, "lease_id": "l", "request_id": "k"}),
    }
}

#[tokio::test]
async fn the_list_and_the_handshakes_are_frozen_to_the_byte() {
    let rig = Rig::new().await;
    let handshake = |version: &str| json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let mut frozen = serde_json::Map::new();
    for era in ERAS {
        let (first, second) =
            (rig.rpc(era, "tools/list", json!({})).await, rig.rpc(era, "tools/list", json!({})).await);
        assert_eq!(first.body, second.body);
        let mut list = first.json()["result"].take();
        let names: Vec<Value> =
            list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, SessionTool::ALL.map(|tool| json!(tool.name())));
        assert_eq!(list["tools"].take(), serde_json::to_value(crate::mcp::describe::tools()).unwrap());
        list["sha256 of the whole answer"] = json!(protocol::digest::Digest::of(&first.body).to_string());
        frozen.insert(format!("tools/list {era}"), list);
    }
    frozen.insert(
        "server/discover".to_owned(),
        rig.rpc(MODERN, "server/discover", json!({})).await.json()["result"].take(),
    );
    for version in ["2025-06-18", LEGACY] {
        let answer = rig.rpc(version, "initialize", handshake(version)).await;
        assert!(!answer.headers.contains_key("mcp-session-id"));
        assert_eq!(answer.json()["result"]["protocolVersion"], version);
        frozen.insert(format!("initialize {version}"), answer.json()["result"].take());
    }
    for unknown in ["1999-01-01", "2024-11-05", MODERN] {
        let (message, _) = super::rig::request(LEGACY, "initialize", handshake(unknown));
        assert_eq!(rig.post(&message, &[]).await.json()["result"]["protocolVersion"], LEGACY, "{unknown}");
    }
    // The release's number is the one thing that changes.
    let frozen = Value::from(frozen).to_string().replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_json_snapshot!(serde_json::from_str::<Value>(&frozen).unwrap());
}

#[tokio::test]
async fn every_other_method_and_tool_is_an_error() {
    let rig = Rig::new().await;
    for era in ERAS {
        for method in [
            "resources/list",
            "resources/read",
            "resources/templates/list",
            "resources/subscribe",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
            "sampling/createMessage",
            "roots/list",
            "tasks/list",
            "tasks/get",
            "subscriptions/listen",
            "skills/list",
            "elicitation/create",
            "session/new",
            "no/such",
            "tools",
            "tools/",
            "",
        ] {
            let answer = rig.rpc(era, method, json!({})).await;
            assert_eq!(answer.error(&json!(1)), -32601, "{era} {method}");
            assert_eq!(answer.status, if era == MODERN { 404 } else { 200 }, "{era} {method}");
        }
        for name in [
            "Read",
            "Edit",
            "Bash",
            "RunCommand",
            "deepseek_subagent_start",
            "native_session_delete",
            "Native_session_start",
        ] {
            let answer = rig.rpc(era, "tools/call", json!({"name": name, "arguments": {}})).await;
            assert_eq!(answer.error(&json!(1)), -32602, "{era} {name}");
        }
        for params in [
            json!({"name": ""}),
            json!({"name": " "}),
            json!({}),
            json!({"name": 5}),
            json!({"name": "native_session_status", "arguments": []}),
        ] {
            rig.rpc(era, "tools/call", params).await.error(&json!(1));
        }
    }
    assert!(rig.script.calls().is_empty());
    assert_eq!(rig.rpc(LEGACY, "ping", json!({})).await.json()["result"], json!({}));
    assert_eq!(rig.rpc(MODERN, "ping", json!({})).await.error(&json!(1)), -32601);
}

#[tokio::test]
async fn the_six_tools_reach_their_sessions_and_show_the_view_twice() {
    for (response, text) in [(ResponseMode::Json, TextMode::Full), (ResponseMode::Sse, TextMode::Summary)] {
        let rig = Rig::with(DoorConfig { response, text, ..DoorConfig::default() }).await;
        for era in ERAS {
            for tool in SessionTool::ALL {
                let result = rig.call(era, tool.name(), arguments(tool, "ses_x")).await;
                assert_eq!(result["isError"], false);
                assert_eq!(result["structuredContent"]["native_session_id"], "ses_x");
                let text = result["content"][0]["text"].as_str().unwrap();
                assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
                let failed = rig.call(era, tool.name(), arguments(tool, "fail:lease_stale")).await;
                assert_eq!(failed["isError"], true);
                assert_eq!(
                    failed["structuredContent"],
                    json!({"code": "lease_stale", "message": "scripted", "retryable": true, "next": "call again"})
                );
            }
        }
        let called: Vec<_> = rig.script.calls().into_iter().map(|(name, _)| name).collect();
        let one_era =
            ["start", "continue_", "recover", "reply", "status", "stop"].map(|name| [name; 2]).concat();
        assert_eq!(called, one_era.repeat(2));
    }
}

#[tokio::test]
async fn bad_arguments_are_results_that_name_the_field() {
    let rig = Rig::new().await;
    for era in ERAS {
        for tool in SessionTool::ALL {
            let mut wrong = arguments(tool, "x");
            wrong["model"] = json!("gpt");
            let result = rig.call(era, tool.name(), wrong).await;
            assert_eq!(
                (&result["isError"], &result["structuredContent"]["code"]),
                (&json!(true), &json!("invalid_argument"))
            );
            assert!(result["structuredContent"]["message"].as_str().unwrap().contains("`model`"));
            let empty = rig.rpc(era, "tools/call", json!({"name": tool.name()})).await.json();
            assert_eq!(empty["result"]["structuredContent"]["code"], "invalid_argument");
        }
    }
    assert!(rig.script.calls().is_empty());
}

#[tokio::test]
async fn only_the_token_opens_and_nothing_repeats_it() {
    let rig = Rig::new().await;
    let list = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"});
    let token = rig.token.clone();
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        &format!("Bearer {}", &token[1..]),
        &format!("Bearer {token}x"),
        &format!("Basic {token}"),
        &token,
        &format!("Bearer{token}"),
        &format!("Bearer {token} {token}"),
    ] {
        let answer = rig.post(&list, &[("Authorization", wrong)]).await;
        assert_eq!((answer.status, answer.error(&json!("a"))), (401, -31401), "{wrong}");
        assert!(answer.headers["www-authenticate"].starts_with("Bearer"));
        assert!(!String::from_utf8_lossy(&answer.body).contains(&token[1..]));
    }
    let own = format!("Bearer {token}");
    let twice = rig.post(&list, &[("Authorization", &own), ("Authorization", "Bearer x")]).await;
    assert_eq!(twice.status, 401);
    for spelled in [format!("bearer {token}"), format!("BEARER   {token}")] {
        assert_eq!(rig.post(&list, &[("Authorization", &spelled)]).await.status, 200);
    }
    rig.bearer.rotate().unwrap();
    assert_eq!(rig.post(&list, &[]).await.status, 401);
}

#[tokio::test]
async fn other_hosts_and_other_sites_are_refused() {
    let rig = Rig::new().await;
    let list = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list"});
    for wrong in [
        ("Host", "evil.example"),
        ("Host", "127.0.0.1.nip.io:80"),
        ("Host", ""),
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "file://"),
        ("Origin", "https://localhost.evil.example"),
    ] {
        // A request without a Host is refused by HTTP itself or by the gate.
        let answer = rig.post(&list, &[wrong]).await;
        assert_eq!((answer.status, answer.error(&json!(4))), (403, -31403), "{wrong:?}");
    }
    for right in [
        ("Host", "localhost:9"),
        ("Host", "[::1]"),
        ("Origin", "http://localhost:3000"),
        ("Origin", "https://127.0.0.1"),
    ] {
        assert_eq!(rig.post(&list, &[right]).await.status, 200, "{right:?}");
    }
}

#[tokio::test]
async fn health_needs_no_token_and_tells_nothing() {
    let rig = Rig::new().await;
    for (path, word) in [("/healthz", "ok"), ("/readyz", "ready")] {
        let answer = rig.http(&format!("GET {path}"), b"", &[("Authorization", "")]).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"status": word})));
        assert_eq!(rig.http(&format!("POST {path}"), b"{}", &[]).await.status, 405);
    }
    for path in ["/", "/mcp/", "/MCP", "/.well-known/oauth-protected-resource"] {
        assert_eq!(rig.http(&format!("GET {path}"), b"", &[]).await.status, 404);
    }
}

#[tokio::test]
async fn there_is_no_transport_session_to_lose() {
    let rig = Rig::new().await;
    let status = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "native_session_status", "arguments": {"native_session_id": "s", "lease_id": "l"}}});
    for headers in
        [vec![], vec![("Mcp-Session-Id", "gone")], vec![("Mcp-Session-Id", "gone"), ("Last-Event-ID", "9")]]
    {
        let answer = rig.post(&status, &headers).await;
        assert_eq!(answer.json()["result"]["structuredContent"]["native_session_id"], "s");
    }
    for method in ["DELETE", "GET", "PUT", "OPTIONS", "PATCH"] {
        let answer = rig.http(&format!("{method} /mcp"), b"", &[("Mcp-Session-Id", "gone")]).await;
        assert_eq!((answer.status, answer.error(&Value::Null)), (405, -31405), "{method}");
        assert_eq!(answer.headers["allow"], "POST");
    }
    let with_id = br#"{"jsonrpc":"2.0","id":8,"method":"x"}"#;
    assert_eq!(rig.http("DELETE /mcp", with_id, &[]).await.error(&json!(8)), -31405);
    assert_eq!(rig.script.calls().len(), 3);
}
