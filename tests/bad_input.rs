//! [M5, M7, P4] Whatever comes in: a clear error that says what to do, nothing lost, no hang.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tests::{Gateway, Session, key};

#[test]
fn a_bad_start_names_its_field_and_makes_no_session() {
    let gateway = Gateway::start();
    let file = gateway.work.join("file");
    fs::write(&file, "").unwrap();
    for (field, value, named) in [
        ("working_directory", json!("relative"), "working_directory"),
        ("working_directory", json!(gateway.work.join("absent")), "working_directory"),
        ("working_directory", json!(file), "working_directory"),
        ("working_directory", json!(7), "working_directory"),
        ("prompt", json!(""), "prompt"),
        ("prompt", json!(" \n\t "), "prompt"),
        ("prompt", json!("x".repeat(64 * 1024 + 1)), "prompt"),
        ("idempotency_key", json!(""), "idempotency_key"),
        ("idempotency_key", json!("x".repeat(201)), "idempotency_key"),
        ("session_label", json!("x".repeat(201)), "session_label"),
        ("wait_seconds", json!(51), "wait_seconds"),
        ("wait_seconds", json!(-1), "wait_seconds"),
        ("wait_seconds", json!("1"), "wait_seconds"),
        ("capability_profile", json!("root"), "capability_profile"),
        ("subagent_policy", json!("deepseek_explicit"), "worktree_write"),
        ("model", json!("gpt"), "model"),
        ("api_key", json!("x"), "api_key"),
    ] {
        let mut arguments = json!({"prompt": "p", "idempotency_key": key(), "working_directory": gateway.work, "wait_seconds": 0});
        arguments[field] = value;
        let refused = gateway.client.refused("native_session_start", &arguments);
        assert_eq!(refused.code, "invalid_argument", "{arguments:.200}");
        assert!(refused.body["message"].as_str().unwrap().contains(named), "{named}: {:?}", refused.body);
    }
    for missing in ["prompt", "idempotency_key", "working_directory"] {
        let mut arguments =
            json!({"prompt": "p", "idempotency_key": key(), "working_directory": gateway.work});
        arguments.as_object_mut().unwrap().remove(missing);
        let refused = gateway.client.refused("native_session_start", &arguments);
        assert!(refused.body["message"].as_str().unwrap().contains(missing), "{missing}: {:?}", refused.body);
    }
    assert_eq!(gateway.ctl(&["sessions"]).json["sessions"], json!([]));
}

#[test]
fn an_unknown_session_and_a_malformed_id_are_told_apart_from_nothing() {
    let gateway = Gateway::start();
    for id in ["ses_00000000000000000000000000000000", "ses_1", "", "../../etc", "ses_\u{0}"] {
        let arguments =
            json!({"native_session_id": id, "lease_id": "lease_00000000000000000000000000000000"});
        let refused = gateway.client.refused("native_session_status", &arguments);
        assert!(
            ["session_not_found", "invalid_argument"].contains(&refused.code.as_str()),
            "{id}: {refused:?}"
        );
    }
}

#[test]
fn bytes_that_are_no_http_harm_nothing() {
    let gateway = Gateway::start();
    let mut noise: Vec<Vec<u8>> =
        vec![b"\0".repeat(100_000), b"GET / HTTP/9.9\r\n\r\n".to_vec(), vec![0xff; 10]];
    noise.push(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec());
    noise.push(
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n".to_vec(),
    );
    for bytes in noise {
        let mut stream = TcpStream::connect(gateway.client.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    assert_eq!(gateway.client.rpc("ping", &json!({})).unwrap(), json!({}));
}

/// What a start with this program in Claude Code's place leads to: an error, or a view.
fn start_with(program: &Path) -> (Gateway, Result<Value, Value>) {
    let gateway = Gateway::with(&[("CLAUDE_BIN", program.to_str().unwrap())]);
    let arguments = json!({"prompt": "p", "idempotency_key": key(), "working_directory": gateway.work, "wait_seconds": 50});
    let outcome = match gateway.client.call("native_session_start", &arguments) {
        Ok(view) => Ok(view),
        Err(tests::CallError::Tool(error)) => Err(error.body),
        Err(other) => panic!("{other:?}"),
    };
    (gateway, outcome)
}

#[test]
fn a_missing_claude_code_is_named_with_what_mends_it() {
    let (gateway, outcome) = start_with(Path::new("/nonexistent/claude"));
    let error = outcome.map_or_else(|error| error, |view| view["launch_error"].clone());
    assert_eq!(error["code"], "launch_failed", "{error}");
    assert!(error["message"].as_str().unwrap().contains("CLAUDE_BIN"), "{error}");
    gateway.wait_for_no_runners();
}

#[test]
fn a_claude_code_that_dies_at_start_fails_the_session_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let program: PathBuf = folder.path().join("claude");
    fs::write(&program, "#!/bin/sh\necho 'this is not what you want' >&2\nexit 3\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (gateway, outcome) = start_with(&program);
    match outcome {
        Ok(mut view) => {
            let mut session = Session::of(&gateway.client, view.clone());
            session.wait_for_status("failed");
            view = session.view.clone();
            assert!(view["launch_error"]["message"].is_string() && view["next"].is_string(), "{view}");
            assert_eq!(session.stop()["status"], "stopped");
        }
        Err(error) => assert_eq!(error["code"], "launch_failed", "{error}"),
    }
    gateway.wait_for_no_runners();
}

#[test]
fn a_token_that_is_deleted_is_made_anew_by_the_next_start() {
    let mut gateway = Gateway::start();
    let old = gateway.client.token.clone();
    fs::remove_file(gateway.state.join("token")).unwrap();
    assert_eq!(gateway.client.rpc("ping", &json!({})).unwrap(), json!({}), "a running gateway goes on");
    gateway.restart();
    assert_ne!(gateway.client.token, old);
    assert_eq!(gateway.client.rpc("ping", &json!({})).unwrap(), json!({}));
}

#[test]
fn a_damaged_journal_is_named_and_the_other_sessions_work() {
    let mut gateway = Gateway::start();
    let mut broken = Session::start(&gateway.client, &gateway.work, "broken");
    let mut whole = Session::start(&gateway.client, &gateway.work, "whole");
    broken.finish("done");
    gateway.kill();
    let journal = gateway.state.join("sessions").join(&broken.id).join("journal");
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0xff;
    fs::write(&journal, &bytes).unwrap();
    gateway.start_again();
    let refused = gateway.client.refused("native_session_status", &broken.arguments(&json!({})));
    assert_eq!(refused.code, "ledger_unavailable", "{:?}", refused.body);
    let list = gateway.ctl(&["sessions"]).json;
    let line = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["native_session_id"] == broken.id.as_str());
    assert!(line.unwrap()["trouble"].is_string(), "{list}");
    assert_eq!(gateway.ctl(&["stop", &broken.id]).code, 1);
    assert_eq!(fs::read(&journal).unwrap(), bytes, "a damaged journal is left as it is");
    whole.recover(&key(), 20).unwrap();
    assert_eq!(whole.finish("ok"), "ok");
    whole.stop();
    gateway.wait_for_no_runners();
}
