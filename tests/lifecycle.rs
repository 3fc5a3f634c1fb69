//! [T1–T7, X1–X3] The main job: a prompt, turns, replies, tools, an answer, the next prompt, the end.

use std::fs;

use serde_json::{Value, json};
use tests::{Gateway, Session, key, tree};

/// What every view has.
const REQUIRED: [&str; 26] = [
    "native_session_id",
    "claude_session_id",
    "status",
    "revision",
    "replay",
    "route",
    "fallback",
    "lease_id",
    "lease_expires_at",
    "session_label",
    "capability_profile",
    "subagent_policy",
    "deepseek_route",
    "deepseek_subsessions",
    "active_deepseek_subsession_id",
    "skill_snapshot",
    "working_directory",
    "source_directory",
    "workspace",
    "network_boundary",
    "runtime_attached",
    "recovery_required",
    "current_run",
    "pending_turn",
    "stop_request",
    "next",
];

fn content(result: &Value) -> &str {
    result["content"].as_str().unwrap_or_default()
}

#[test]
fn find_search_read_answer_continue_stop() {
    let gateway = Gateway::start();
    fs::create_dir_all(gateway.work.join("src")).unwrap();
    fs::create_dir(gateway.work.join(".git")).unwrap();
    fs::write(gateway.work.join("src/a.rs"), "fn a() {}\n// needle (x)*\n").unwrap();
    fs::write(gateway.work.join("src/b.txt"), b"one\r\nneedle (x)*\r\nthree").unwrap();
    fs::write(gateway.work.join(".git/config"), "needle (x)*\n").unwrap();
    fs::write(gateway.work.join("latin1"), b"caf\xe9").unwrap();
    let before = tree::snapshot(&gateway.work);

    let mut session = Session::start(&gateway.client, &gateway.work, "Find the needle.");
    for field in REQUIRED {
        assert!(session.view.get(field).is_some(), "the view lacks {field}: {}", session.view);
    }
    assert_eq!((session.text("route"), session.text("fallback")), ("chatgpt-main", "none"));
    assert_eq!(session.text("capability_profile"), "read_only");
    assert_eq!(session.turn()["prompt"], "Find the needle.");
    assert_eq!(session.turn()["sequence"], 1);

    let found = session.act(&[("FindFiles", json!({"directory": gateway.work}))]);
    assert!(content(&found[0]).contains("src/a.rs") && !content(&found[0]).contains(".git/"), "{found:?}");
    let hits = session.act(&[("SearchText", json!({"query": "needle (x)*"}))]);
    assert!(content(&hits[0]).contains("a.rs") && content(&hits[0]).contains("b.txt"), "{hits:?}");
    assert!(!content(&hits[0]).contains(".git/config"), "{hits:?}");
    let read = session.act(&[
        ("Read", json!({"file_path": gateway.work.join("src/b.txt")})),
        ("Read", json!({"file_path": gateway.work.join("latin1")})),
        ("Read", json!({"file_path": gateway.work.join("absent")})),
    ]);
    assert_eq!(
        read.iter().map(|r| r["is_error"] == true).collect::<Vec<_>>(),
        [false, true, true],
        "{read:?}"
    );
    assert!(content(&read[0]).contains("three"));
    assert_eq!(session.turn()["sequence"], 4);
    assert!(session.turn()["tools_same_as"].is_string());

    assert_eq!(session.finish("In a.rs and b.txt."), "In a.rs and b.txt.");
    assert_eq!(session.view["current_run"]["outcome"], "finished");
    let claude = session.text("claude_session_id").to_owned();
    session.go_on("And now?");
    assert_eq!(session.turn()["prompt"], "And now?");
    assert_eq!(session.text("claude_session_id"), claude);
    assert_eq!(session.view["current_run"]["sequence"], 2);
    session.finish("Nothing more.");

    let stopped = session.stop();
    assert_eq!((&stopped["status"], &stopped["terminal"]), (&json!("stopped"), &json!(true)));
    assert_eq!(stopped["runtime_attached"], false);
    gateway.wait_for_no_runners();
    assert_eq!(tree::snapshot(&gateway.work), before, "a read-only session changed the directory");
}

#[test]
fn a_bad_reply_is_refused_whole_and_the_turn_stays_open() {
    let gateway = Gateway::start();
    fs::write(gateway.work.join("f"), "hello\n").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let turn = session.turn()["turn_id"].clone();
    let good = json!({"name": "Read", "input": {"file_path": gateway.work.join("f")}});
    for (calls, code) in [
        (json!([good, {"name": "Write", "input": {"file_path": "/x", "content": ""}}]), "tool_not_allowed"),
        (json!([{"name": "Bash", "input": {"command": "id"}}]), "tool_not_allowed"),
        (json!([{"name": "mcp__gateway__Read", "input": {"file_path": "/x"}}]), "tool_not_allowed"),
        (json!([{"name": "Read", "input": {"file_path": "relative"}}]), "invalid_argument"),
        (json!([{"name": "Read", "input": {"path": "/x"}}]), "invalid_argument"),
        (
            json!([{"name": "Read", "input": {"file_path": "/x", "limit": 12_345_678_901_234_567_890_u64}}]),
            "invalid_argument",
        ),
        (json!(vec![good.clone(); 33]), "invalid_argument"),
        (json!([]), "invalid_argument"),
    ] {
        let reply = session.arguments(&json!({"turn_id": turn, "reply_id": key(), "tool_calls": calls}));
        let refused = gateway.client.refused("native_session_reply_and_wait", &reply);
        assert_eq!(refused.code, code, "{calls}: {:?}", refused.body);
    }
    let large = json!({"turn_id": turn, "reply_id": key(), "text": "x".repeat(768 * 1024 + 1)});
    let refused = gateway.client.refused("native_session_reply_and_wait", &session.arguments(&large));
    assert_eq!(refused.code, "reply_too_large");
    let neither = session.arguments(&json!({"turn_id": turn, "reply_id": key()}));
    assert_eq!(gateway.client.refused("native_session_reply_and_wait", &neither).code, "invalid_argument");

    assert_eq!(session.status(0)["pending_turn"]["turn_id"], turn);
    let read = session.act(&[("Read", json!({"file_path": gateway.work.join("f")}))]);
    assert!(content(&read[0]).contains("hello"), "{read:?}");
    let late = session.arguments(&json!({"turn_id": turn, "reply_id": key(), "text": "late"}));
    assert_eq!(gateway.client.refused("native_session_reply_and_wait", &late).code, "turn_stale");
}

#[test]
fn a_run_takes_no_second_prompt_before_its_end() {
    let gateway = Gateway::start();
    let session = Session::start(&gateway.client, &gateway.work, "p");
    let second = session.arguments(&json!({"prompt": "q", "idempotency_key": key()}));
    assert_eq!(gateway.client.refused("native_session_continue", &second).code, "busy");
}

#[test]
fn a_large_result_reaches_claude_code_whole() {
    let gateway = Gateway::start();
    fs::write(gateway.work.join("big"), format!("{}\n", "0123456789 ".repeat(9)).repeat(3000)).unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let read = session.act(&[("Read", json!({"file_path": gateway.work.join("big")}))]);
    let text = content(&read[0]);
    assert!((32_000..=65_536).contains(&text.len()), "{}", text.len());
    assert!(!text.contains("persisted-output"));
}

#[test]
fn sessions_keep_apart() {
    let gateway = Gateway::start();
    let mut sessions: Vec<_> = (0..3)
        .map(|n| {
            let directory = gateway.work.join(n.to_string());
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("f"), format!("secret-{n}")).unwrap();
            (n, directory.clone(), Session::start(&gateway.client, &directory, "p"))
        })
        .collect();
    for (n, directory, session) in &mut sessions {
        let read = session.act(&[("Read", json!({"file_path": directory.join("f")}))]);
        assert!(content(&read[0]).contains(&format!("secret-{n}")), "{read:?}");
    }
    let foreign = sessions[0].2.arguments(&json!({"lease_id": sessions[1].2.view["lease_id"]}));
    assert_eq!(gateway.client.refused("native_session_status", &foreign).code, "lease_stale");
}
