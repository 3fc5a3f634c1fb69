//! The output schema of the six tools: the session view, or an error.
//!
//! Some clients check an error's `structuredContent` against it too, so it describes both: every field stands in `properties`,
//! and `anyOf` says which belong together. It is open: the view may grow.
//!
//! It stands in each of the six tools, and clients bound the size of a tool and of all: so it says in full what a model answers to,
//! and outlines the rest.
//!
//! Invariant: a value that can be null says so, and nothing else does.

use protocol::schema::collapse_constants;
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::session::view::SessionView;

/// The schema, as a JSON object.
pub(super) fn result_schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<SessionView>().to_value();
    tidy(&mut schema);
    let mut properties = take(&mut schema, "properties");
    for (name, field) in &mut properties {
        match OUTLINED.iter().find(|(outlined, _)| outlined == name) {
            Some((_, text)) => outline(field, text),
            None => compact(field, if name == "pending_turn" { Depth::Top } else { Depth::Field }),
        }
    }
    for (name, field) in error_fields() {
        properties.insert(name, field);
    }
    json!({
        "type": "object",
        "properties": properties,
        "anyOf": [
            { "required": schema.get("required").cloned().unwrap_or_default() },
            { "required": ["code", "message", "retryable", "next"] },
        ],
    })
}

/// Fields whose inside no next call depends on, with what stands in them.
const OUTLINED: [(&str, &str); 8] = [
    ("claude_code", "The Claude Code that runs: version, verified."),
    ("deepseek_route", "Where delegated tasks go: sonnet, opus, fable."),
    (
        "deepseek_subsessions",
        "The delegated tasks: id, state, model, started_at, ended_at, turns, reason, text, files_changed.",
    ),
    ("launch_error", "Why the last start failed: code, message."),
    ("network_boundary", "What the session's processes can reach: claude, commands, enforced_by."),
    (
        "skill_snapshot",
        "The pinned skills, without their texts: skill_id, content_sha256, body_sha256, body_bytes.",
    ),
    ("stop_request", "The stop that was asked for: request_id, reason, requested_at."),
    (
        "workspace",
        "How the session's root relates to the directory asked for: kind, root, branch, base_commit, notes.",
    ),
];

fn outline(field: &mut Value, text: &str) {
    if let Value::Object(fields) = field {
        fields.retain(|name, _| name == "type");
        fields.insert("description".to_owned(), Value::from(text));
    }
}

/// How far below the view a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The turn, whose fields a reply depends on.
    Top,
    /// A field of the view or of the turn.
    Field,
    /// Anything inside one.
    Inside,
}

/// Inside a field no description and no list of required ones; nowhere a bound that says what the type says.
fn compact(schema: &mut Value, depth: Depth) {
    let Value::Object(fields) = schema else { return };
    fields.remove("minimum");
    let inner_depth = match depth {
        Depth::Top => Depth::Field,
        Depth::Field => {
            fields.remove("required");
            Depth::Inside
        }
        Depth::Inside => {
            fields.remove("required");
            fields.remove("description");
            Depth::Inside
        }
    };
    if let Some(Value::Object(inner)) = fields.get_mut("properties") {
        if let Some(limits) = inner.get_mut("limits") {
            outline(limits, "Bounds of the reply and its results: reply_bytes, result_bytes, turn_bytes.");
        }
        inner.values_mut().for_each(|field| compact(field, inner_depth));
    }
    if let Some(items) = fields.get_mut("items") {
        compact(items, Depth::Inside);
    }
}

fn error_fields() -> Map<String, Value> {
    let described = |kind: &str, text: &str| json!({ "type": kind, "description": text });
    Map::from_iter([
        ("code".to_owned(), described("string", "Only in an error: its stable code, such as lease_stale.")),
        (
            "message".to_owned(),
            described("string", "Only in an error: what was attempted and why it failed."),
        ),
        (
            "retryable".to_owned(),
            described("boolean", "Only in an error: whether the same call can succeed later."),
        ),
    ])
}

fn take(schema: &mut Value, name: &str) -> Map<String, Value> {
    match schema.get_mut(name).map(Value::take) {
        Some(Value::Object(fields)) => fields,
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | None => {
            Map::new()
        }
    }
}

/// Takes out what clients stumble over, without saying less: number formats, lists of constants, `anyOf` with null.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let number = |format: &str| format.starts_with("uint") || format.starts_with("int");
            if fields.get("format").and_then(Value::as_str).is_some_and(number) {
                fields.remove("format");
            }
            present(fields);
            collapse_constants(fields);
            nullable(fields);
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A field that is left out where it has no value is never null.
fn present(fields: &mut Map<String, Value>) {
    let required = fields.get("required").cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = fields.get_mut("properties") else { return };
    for (name, field) in properties {
        if !required.as_array().is_some_and(|names| names.iter().any(|given| given == name)) {
            protocol::schema::simplify(field);
        }
    }
}

/// `anyOf [X, null]` is X whose type may also be null.
fn nullable(fields: &mut Map<String, Value>) {
    let Some([Value::Object(shape), null]) = fields.get("anyOf").and_then(Value::as_array).map(Vec::as_slice)
    else {
        return;
    };
    if null.get("type").and_then(Value::as_str) != Some("null") {
        return;
    }
    let mut shape = shape.clone();
    collapse_constants(&mut shape);
    fields.remove("anyOf");
    if let Some(Value::Array(values)) = shape.get_mut("enum") {
        values.push(Value::Null);
    }
    if let Some(kind) = shape.remove("type") {
        fields.insert("type".to_owned(), json!([kind, "null"]));
    }
    for (name, value) in shape {
        fields.entry(name).or_insert(value);
    }
}
