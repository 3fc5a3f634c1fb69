//! Every field of every tool, wrong in every way.

use serde_json::json;

use super::*;

fn good(tool: SessionTool) -> Value {
    match tool {
        SessionTool::Start => json!({"prompt": "x", "idempotency_key": "k", "working_directory": "/w"}),
        SessionTool::Continue => {
            json!({"native_session_id": "s", "lease_id": "l", "prompt": "x", "idempotency_key": "k"})
        }
        SessionTool::Recover => json!({"native_session_id": "s", "recovery_token": "t", "recovery_id": "k"}),
        SessionTool::Reply => {
            json!({"native_session_id": "s", "lease_id": "l", "turn_id": "t", "reply_id": "k", "text": "x"})
        }
        SessionTool::Status => json!({"native_session_id": "s", "lease_id": "l"}),
        SessionTool::Stop => json!({"native_session_id": "s", "lease_id": "l", "request_id": "k"}),
    }
}

fn refusal(tool: SessionTool, arguments: &Value) -> String {
    let failure = parse(tool, arguments.as_object().unwrap().clone()).unwrap_err();
    assert_eq!(failure.code, ErrorCode::InvalidArgument);
    assert!(!failure.retryable && failure.next.contains(tool.name()));
    failure.message.into_owned()
}

fn changed(tool: SessionTool, field: &str, value: Value) -> Value {
    let mut arguments = good(tool);
    arguments[field] = value;
    arguments
}

#[test]
fn every_required_field_is_missed_by_name_and_every_field_has_one_type() {
    for tool in SessionTool::ALL {
        assert!(parse(tool, good(tool).as_object().unwrap().clone()).is_ok(), "{tool:?}");
        let (known, required) = describe::fields(tool);
        for field in required {
            for absent in [None, Some(Value::Null)] {
                let mut arguments = good(tool);
                match absent {
                    None => drop(arguments.as_object_mut().unwrap().remove(field)),
                    Some(null) => arguments[field] = null,
                }
                let text = refusal(tool, &arguments);
                assert!(text.contains(&format!("missing field `{field}`")), "{text}");
            }
        }
        for field in known {
            for wrong in [json!([[]]), json!({"a": 1}), json!(true), json!(-1), json!(1.5)] {
                let text = refusal(tool, &changed(tool, field, wrong));
                assert!(text.contains(&format!("`{field}`")), "{field}: {text}");
            }
        }
    }
}

#[test]
fn of_two_fields_that_are_wrong_in_the_same_words_one_is_named() {
    for tool in SessionTool::ALL {
        let (known, _) = describe::fields(tool);
        for wrong in [json!([[]]), json!(true), json!(1.5)] {
            let mut arguments = good(tool);
            for field in &known {
                arguments[*field] = wrong.clone();
            }
            let text = refusal(tool, &arguments);
            assert!(known.iter().any(|field| text.contains(&format!("field `{field}`"))), "{text}");
        }
    }
}

#[test]
fn another_model_can_be_asked_for_nowhere() {
    for tool in SessionTool::ALL {
        for field in ["model", "provider", "endpoint", "api_key", "fallback", "Prompt", ""] {
            for value in [json!("x"), Value::Null] {
                let text = refusal(tool, &changed(tool, field, value));
                assert!(text.contains(&format!("unknown field `{field}`")), "{text}");
            }
        }
    }
}

#[test]
fn bounds_are_checked_and_the_field_is_named() {
    use SessionTool::{Continue, Recover, Reply, Start, Status, Stop};
    let long = "é".repeat(KEY_CHARS + 1);
    for (tool, field, value) in [
        (Start, "prompt", json!("")),
        (Start, "prompt", json!(" \n\t")),
        (Continue, "prompt", json!("x".repeat(PROMPT_BYTES + 1))),
        (Start, "working_directory", json!("relative")),
        (Start, "working_directory", json!("/a\0b")),
        (Start, "capability_profile", json!("root")),
        (Start, "subagent_policy", json!("deepseek_explicit")),
        (Start, "session_label", json!(long)),
        (Start, "idempotency_key", json!("")),
        (Start, "idempotency_key", json!("a\nb")),
        (Start, "skill_contexts", json!(vec![json!({"skill_id": "a", "content": "b"}); 9])),
        (Start, "skill_contexts", json!([{"skill_id": "a", "content": "b", "more": 1}])),
        (Start, "wait_seconds", json!(51)),
        (Start, "wait_seconds", json!("30")),
        (Recover, "recovery_id", json!(long)),
        (Reply, "reply_id", json!(long)),
        (Reply, "tool_calls", json!(vec![json!({"name": "Read", "input": {}}); 33])),
        (Reply, "tool_calls", json!([{"name": "Read"}])),
        (Reply, "text", json!("  ")),
        (Status, "wait_seconds", json!(u64::MAX)),
        (Stop, "request_id", json!(long)),
        (Stop, "reason", json!(long)),
    ] {
        let text = refusal(tool, &changed(tool, field, value.clone()));
        assert!(text.contains(&format!("`{field}`")), "{tool:?} {field}: {text}");
    }
    assert!(
        parse(Start, changed(Start, "prompt", json!("x".repeat(PROMPT_BYTES))).as_object().unwrap().clone())
            .is_ok()
    );
    assert!(parse(Start, changed(Start, "wait_seconds", json!(50)).as_object().unwrap().clone()).is_ok());
}

#[test]
fn a_huge_wrong_value_is_not_repeated() {
    let text =
        refusal(SessionTool::Start, &changed(SessionTool::Start, "wait_seconds", json!("é".repeat(1 << 20))));
    assert!(text.len() < 2 * ECHO_BYTES && text.contains("`wait_seconds`"));
    let text = refusal(SessionTool::Start, &changed(SessionTool::Start, &"é".repeat(1 << 20), json!(1)));
    assert!(text.len() < 2 * ECHO_BYTES);
}

#[test]
fn what_a_skill_says_is_not_repeated() {
    let skill = json!({"skill_id": "a", "content": "CANARY"});
    for value in
        [json!("CANARY"), json!(["CANARY"]), json!([skill, {"skill_id": ["CANARY"], "content": "b"}])]
    {
        let text = refusal(SessionTool::Start, &changed(SessionTool::Start, "skill_contexts", value));
        assert!(text.contains("`skill_contexts") && !text.contains("CANARY"), "{text}");
    }
}

#[test]
fn only_calls_that_may_wait_count_as_waiters() {
    let waits = |tool, seconds: Value| {
        parse(tool, changed(tool, "wait_seconds", seconds).as_object().unwrap().clone()).unwrap().waits()
    };
    assert!(waits(SessionTool::Start, Value::Null) && !waits(SessionTool::Start, json!(0)));
    assert!(!waits(SessionTool::Status, Value::Null) && waits(SessionTool::Status, json!(1)));
    let stop = parse(SessionTool::Stop, good(SessionTool::Stop).as_object().unwrap().clone()).unwrap();
    assert!(!stop.waits());
}

#[test]
fn a_whole_number_is_an_integer_however_it_is_spelled() {
    for spelled in ["7.0", "0.7e1", "7"] {
        let mut call = good(SessionTool::Status);
        call["wait_seconds"] = serde_json::from_str(spelled).unwrap();
        let Call::Status(input) = parse(SessionTool::Status, call.as_object().unwrap().clone()).unwrap()
        else {
            panic!("another call");
        };
        assert_eq!(input.wait_seconds, Some(7), "{spelled}");
    }
    assert!(
        refusal(SessionTool::Status, &changed(SessionTool::Status, "wait_seconds", json!(7.5)))
            .contains("`wait_seconds`")
    );
    assert!(
        refusal(SessionTool::Status, &changed(SessionTool::Status, "wait_seconds", json!(1e300)))
            .contains("`wait_seconds`")
    );
}
