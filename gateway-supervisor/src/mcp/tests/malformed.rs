//! Whatever is sent, the answer is a JSON-RPC error with the request's id, and nothing is run.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::rig::{LEGACY, MODERN, Rig, SOON, read_answer, request};
use crate::mcp::config::{Bounds, DoorConfig};

#[tokio::test]
async fn messages_that_are_none() {
    let rig = Rig::new().await;
    for (body, status, code, id) in [
        ("", 400, -32700, Value::Null),
        ("{", 400, -32700, Value::Null),
        (r#"{"jsonrpc":"2.0","id":5,"method":"tools/list""#, 400, -32700, json!(5)),
        ("[]", 400, -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600, Value::Null),
        ("7", 400, -32600, Value::Null),
        (r#"{"id":1,"method":"ping"}"#, 400, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":"r","result":{}}"#, 400, -32600, json!("r")),
        (r#"{"jsonrpc":"2.0","id":"r","error":{"code":1,"message":"x"}}"#, 400, -32600, json!("r")),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, 400, -32600, Value::Null),
    ] {
        let answer = rig.http("POST /mcp", body.as_bytes(), &[]).await;
        assert_eq!((answer.status, answer.error(&id)), (status, code), "{body}");
    }
    assert_eq!(
        rig.http("POST /mcp", b"{\"jsonrpc\":\"2.0\",\"id\":6,\"x\":\"\xff\"}", &[]).await.error(&json!(6)),
        -32700
    );
}

#[tokio::test]
async fn a_message_that_nests_too_deep() {
    let rig = Rig::new().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"native_session_status","arguments":{{"a":{deep}}}}}}}"#
    );
    let answer = rig.http("POST /mcp", body.as_bytes(), &[]).await;
    assert_eq!((answer.status, answer.error(&json!(9))), (400, -32602));
    assert_eq!(rig.rpc(LEGACY, "ping", json!({})).await.status, 200);
    assert!(rig.script.calls().is_empty());
}

#[tokio::test]
async fn a_number_that_would_be_rounded_is_refused_and_named() {
    let rig = Rig::new().await;
    let call = |number: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"native_session_reply_and_wait","arguments":{{
            "native_session_id":"s","lease_id":"l","turn_id":"t","reply_id":"k","tool_calls":[{{"name":"x","input":{{"n":{number}}}}}]}}}}}}"#
        )
    };
    let answer = rig.http("POST /mcp", call("12345678901234567890123").as_bytes(), &[]).await.json();
    let failure = &answer["result"]["structuredContent"];
    assert_eq!(failure["code"], "invalid_argument");
    assert!(failure["message"].as_str().unwrap().contains("12345678901234567890123"));
    assert_eq!(rig.http("POST /mcp", call("1e999").as_bytes(), &[]).await.error(&json!(1)), -32602);
    assert!(rig.script.calls().is_empty());
    let whole = rig.http("POST /mcp", call("36893488147419103232").as_bytes(), &[]).await.json();
    assert_eq!(whole["result"]["isError"], false);
}

#[tokio::test]
async fn params_of_the_wrong_form() {
    let rig = Rig::new().await;
    for (method, params) in [
        ("initialize", json!({})),
        (
            "initialize",
            json!({"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "a", "version": "b"}}),
        ),
        ("tools/call", json!([])),
        ("tools/call", json!({"name": ["a"]})),
        ("tools/call", json!({"name": "native_session_status", "arguments": "x"})),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        assert_eq!(rig.post(&message, &[]).await.error(&json!(2)), -32602, "{message}");
    }
}

#[tokio::test]
async fn headers_that_contradict() {
    let rig = Rig::new().await;
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}});
    for (change, status) in [
        (("Accept", "text/html"), 406),
        (("Accept", "application/json"), 406),
        (("Content-Type", ""), 415),
        (("Content-Type", "text/plain"), 415),
        (("Content-Encoding", "gzip"), 415),
        (("MCP-Protocol-Version", "1999-01-01"), 400),
    ] {
        let answer = rig.post(&list, &[change]).await;
        assert_eq!(answer.status, status, "{change:?}");
        answer.error(&json!(3));
    }
    for change in [("Accept", "*/*"), ("Accept", ""), ("Content-Type", "Application/JSON; charset=utf-8")] {
        assert_eq!(rig.post(&list, &[change]).await.status, 200, "{change:?}");
    }
    let (message, _) = request(MODERN, "tools/list", json!({}));
    assert_eq!(rig.post(&message, &[]).await.error(&json!(1)), -32020);
    assert_eq!(rig.post(&message, &[("MCP-Protocol-Version", LEGACY)]).await.error(&json!(1)), -32020);
    let mut unknown = message.clone();
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let headers = [("MCP-Protocol-Version", "2099-01-01"), ("Mcp-Method", "tools/list")];
    let answer = rig.post(&unknown, &headers).await;
    assert_eq!((answer.status, answer.error(&json!(1))), (400, -32022));
}

#[tokio::test]
async fn notifications_are_taken_and_change_nothing() {
    let rig = Rig::new().await;
    for method in
        ["notifications/initialized", "notifications/cancelled", "notifications/no/such", "tools/call"]
    {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": {"name": "native_session_stop"}});
        let answer = rig.post(&message, &[]).await;
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{method}");
    }
    assert!(rig.script.calls().is_empty());
}

#[tokio::test]
async fn a_body_of_five_mebibytes_passes_and_a_larger_one_does_not() {
    let rig = Rig::new().await;
    let most = Bounds::default().body_bytes;
    let message = |text: String| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "native_session_reply_and_wait", "arguments": {"native_session_id": "s", "lease_id": "l", "turn_id": "t", "reply_id": "k", "text": text}}}).to_string()
    };
    let envelope = message(String::new()).len();
    let exact = message("x".repeat(most - envelope));
    assert_eq!(exact.len(), most);
    let answer = rig.http("POST /mcp", exact.as_bytes(), &[]).await;
    assert_eq!(answer.json()["result"]["isError"], false);
    assert_eq!(rig.script.calls()[0].1["text"].as_str().unwrap().len(), most - envelope);

    for (size, headers) in [(most + 1, None), (2 * most, None), (most + 1, Some(("Authorization", "")))] {
        let large =
            format!(r#"{{"jsonrpc":"2.0","id":"big","method":"tools/call","x":"{}"}}"#, "x".repeat(size));
        let answer = rig.http("POST /mcp", large.as_bytes(), headers.as_slice()).await;
        let expected = if headers.is_some() { 401 } else { 413 };
        assert_eq!((answer.status, answer.error(&json!("big"))), (expected, -31000 - i64::from(expected)));
    }
    // The same without a length, in chunks.
    let mut stream = rig.connect().await;
    stream
        .write_all(rig.head("POST /mcp", None, &[("Transfer-Encoding", "chunked")]).as_bytes())
        .await
        .unwrap();
    let chunk = "x".repeat(1 << 20);
    let begin = r#"{"jsonrpc":"2.0","id":7,"a":""#;
    stream.write_all(format!("{:x}\r\n{begin}\r\n", begin.len()).as_bytes()).await.unwrap();
    for _ in 0..7 {
        stream.write_all(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let answer = timeout(SOON, read_answer(&mut stream)).await.unwrap();
    assert_eq!((answer.status, answer.error(&json!(7))), (413, -31413));
    assert_eq!(rig.script.calls().len(), 1);
}

fn quick() -> DoorConfig {
    let time = Duration::from_millis(500);
    DoorConfig { bounds: Bounds { header: time, body: time, ..Bounds::default() }, ..DoorConfig::default() }
}

#[tokio::test]
async fn clients_that_never_finish_are_let_go() {
    let rig = Rig::with(quick()).await;
    for begin in ["", "POST /mcp HT", "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "] {
        let mut stream = rig.connect().await;
        stream.write_all(begin.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        timeout(SOON, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
    let mut stream = rig.connect().await;
    stream.write_all(rig.head("POST /mcp", Some(100), &[]).as_bytes()).await.unwrap();
    stream.write_all(br#"{"jsonrpc":"2.0","id":12,"#).await.unwrap();
    let answer = timeout(SOON, read_answer(&mut stream)).await.unwrap();
    assert_eq!((answer.status, answer.error(&json!(12))), (408, -31408));
}

#[tokio::test]
async fn what_is_no_http_hurts_nobody_else() {
    let rig = Rig::with(quick()).await;
    for garbage in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0; 4096],
        b"POST /mcp HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        let mut stream = rig.connect().await;
        stream.write_all(garbage).await.unwrap();
        let mut rest = Vec::new();
        // A reset is as good an end as a 400.
        let _ = timeout(SOON, stream.read_to_end(&mut rest)).await.unwrap();
    }
    let mut stream = rig.connect().await;
    let long = format!("GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
    let _ = stream.write_all(long.as_bytes()).await;
    drop(stream);
    assert_eq!(rig.rpc(LEGACY, "ping", json!({})).await.status, 200);
}
