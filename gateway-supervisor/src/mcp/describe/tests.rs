//! What a client keeps a snapshot of.

use serde_json::json;

use super::*;

/// A token is about four bytes of such text; the limits are the client's own (5,000 and 16,000), kept with room to grow.
const BYTES_PER_TOKEN: usize = 4;

#[test]
fn the_tools_are_well_below_the_clients_size_limits() {
    let sizes: Vec<usize> = tools().iter().map(|tool| serde_json::to_string(tool).unwrap().len()).collect();
    for (tool, size) in tools().iter().zip(&sizes) {
        assert!(size / BYTES_PER_TOKEN < 2_500, "{}: {size} bytes", tool.name);
    }
    let all: usize = sizes.iter().sum();
    assert!(all / BYTES_PER_TOKEN < 12_000, "{all} bytes: {sizes:?}");
}

#[test]
fn views_and_errors_conform_to_the_output_schema() {
    let schema = Value::Object((**tools()[0].output_schema.as_ref().unwrap()).clone());
    assert_eq!(schema["type"], "object");
    let view = crate::mcp::tests::view("ses_1");
    let bare = serde_json::to_value(&view).unwrap();
    let mut full = view;
    full.session_label = Some("label".into());
    full.next = Some("next".into());
    full.terminal = Some(false);
    full.recovery_token = Some("token".into());
    full.pending_turn.as_mut().unwrap().prompt = Some("prompt".into());
    let error = json!({"code": "busy", "message": "m", "retryable": true, "next": "n"});
    for value in [bare, serde_json::to_value(&full).unwrap(), error] {
        conforms(&value, &schema);
        let wholes = schema["anyOf"].as_array().unwrap();
        let has_all = |whole: &Value| {
            whole["required"]
                .as_array()
                .unwrap()
                .iter()
                .all(|name| value.get(name.as_str().unwrap()).is_some())
        };
        assert_eq!(wholes.iter().filter(|whole| has_all(whole)).count(), 1, "{value}");
    }
}

/// The keywords that the schema uses.
fn conforms(value: &Value, schema: &Value) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed = &schema["type"];
    assert!(
        allowed == kind || allowed.as_array().is_some_and(|kinds| kinds.contains(&json!(kind))),
        "{value} {schema}"
    );
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{value} {schema}");
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(inner) = value.get(name) {
            conforms(inner, field);
        }
    }
    for item in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        conforms(item, &schema["items"]);
    }
}

#[test]
fn each_input_is_closed_and_plain_and_describes_each_field() {
    for tool in tools() {
        let schema = Value::Object((*tool.input_schema).clone());
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        let text = schema.to_string();
        for banned in ["$ref", "$defs", "uint", "null", "anyOf", "oneOf"] {
            assert!(!text.contains(banned), "{}: {banned}: {text}", tool.name);
        }
        for (name, field) in schema["properties"].as_object().unwrap() {
            assert!(field["description"].is_string() && field["type"].is_string(), "{}.{name}", tool.name);
            assert!(!["model", "provider", "endpoint", "api_key", "fallback"].contains(&name.as_str()));
        }
    }
}

#[test]
fn all_four_hints_stand_on_every_tool() {
    for (tool, [read_only, destructive]) in tools().iter().zip([
        [false, false],
        [false, false],
        [false, false],
        [false, true],
        [true, false],
        [false, true],
    ]) {
        let hints = serde_json::to_value(&tool.annotations).unwrap();
        let expected = json!({
            "readOnlyHint": read_only, "destructiveHint": destructive, "idempotentHint": true, "openWorldHint": false,
        });
        assert_eq!(hints, expected, "{}", tool.name);
        for text in tool.meta.as_ref().unwrap().0.values() {
            assert!(text.as_str().unwrap().chars().count() <= 64);
        }
    }
}

#[test]
fn only_tools_that_exist_are_named() {
    let mut texts: Vec<String> = tools().iter().map(|tool| serde_json::to_string(tool).unwrap()).collect();
    texts.push(INSTRUCTIONS.to_owned());
    for text in texts {
        for (at, _) in text.match_indices("native_session_") {
            let name: String =
                text[at..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            assert!(SessionTool::named(&name).is_some() || name == "native_session_id", "{name}");
        }
    }
}

#[test]
fn every_byte_is_frozen() {
    insta::assert_json_snapshot!(json!({ "instructions": INSTRUCTIONS, "tools": tools() }));
}
