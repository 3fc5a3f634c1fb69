//! [R2, R3] What the owner sees and does, and that one state has one supervisor.

use std::process::Stdio;

use serde_json::json;
use tests::{Gateway, Session};

#[test]
fn the_owner_lists_shows_and_stops_sessions() {
    let gateway = Gateway::start();
    assert_eq!(gateway.ctl(&["sessions"]).json, json!({"sessions": []}));
    let session = Session::start(&gateway.client, &gateway.work, "p");
    let status = gateway.ctl(&["status"]);
    assert_eq!(
        (status.code, &status.json["sessions"]),
        (0, &json!({"stored": 1, "attached": 1})),
        "{status:?}"
    );
    let list = gateway.ctl(&["sessions"]);
    let line = &list.json["sessions"][0];
    assert_eq!((&line["native_session_id"], &line["runtime_attached"]), (&json!(session.id), &json!(true)));
    let show = gateway.ctl(&["show", &session.id[..10]]);
    assert_eq!((show.code, &show.json["status"]), (0, &json!("waiting_for_gpt")), "{show:?}");

    assert_eq!(gateway.ctl(&["stop", &session.id]).code, 0);
    gateway.wait_for_no_runners();
    let again = gateway.ctl(&["stop", &session.id]);
    assert_eq!((again.code, &again.json["status"]), (0, &json!("stopped")), "{again:?}");
    assert_eq!(
        gateway
            .client
            .refused(
                "native_session_continue",
                &session.arguments(&json!({"prompt": "q", "idempotency_key": "k"}))
            )
            .code,
        "session_stopped"
    );
}

#[test]
fn exit_codes_tell_the_reasons_apart() {
    let mut gateway = Gateway::start();
    let absent = gateway.ctl(&["show", "ses_ffffffffffffffffffffffffffffffff"]);
    assert_eq!((absent.code, &absent.json["error"]["code"]), (1, &json!("session_not_found")), "{absent:?}");
    assert_eq!(gateway.ctl(&["show", "f"]).code, 1);
    assert_eq!(gateway.ctl(&["explode"]).code, 2);
    gateway.kill();
    for arguments in [["status", ""], ["sessions", ""], ["show", "ses_1"], ["stop", "ses_1"]] {
        let words: Vec<&str> = arguments.into_iter().filter(|word| !word.is_empty()).collect();
        let answer = gateway.ctl(&words);
        assert_eq!((answer.code, &answer.json["error"]["code"]), (3, &json!("no_supervisor")), "{words:?}");
    }
}

#[test]
fn the_doctor_works_with_and_without_a_supervisor() {
    let mut gateway = Gateway::start();
    let well = gateway.ctl(&["doctor"]);
    assert_eq!((well.code, &well.json["healthy"]), (0, &json!(true)), "{well:?}");
    gateway.kill();
    let down = gateway.ctl(&["doctor"]);
    let gateway_check =
        down.json["checks"].as_array().unwrap().iter().find(|c| c["name"] == "gateway").unwrap();
    assert_eq!(gateway_check["verdict"], "care", "{down:?}");
    assert!(gateway_check["mend"].is_string());
}

#[test]
fn a_second_supervisor_on_the_same_state_says_so() {
    let gateway = Gateway::start();
    let output = gateway
        .command("gateway-supervisor")
        .arg("serve")
        .env("CLAUDE_TOOLS_LISTEN", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(gateway.state.to_str().unwrap()), "{said}");
    assert_eq!(gateway.client.rpc("ping", &json!({})).unwrap(), json!({}));
}
