//! JSON schemas in the plain form that every MCP client takes.
//!
//! Invariant: no `$ref`, no number formats, no nulls.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

/// The plain schema of an input type.
#[must_use]
pub fn plain<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Value::Object(fields) = &mut schema {
        fields.remove("title");
        fields.remove("description");
    }
    schema
}

/// Takes out what clients stumble over: `null` types, `uint` formats, defaults of null.
pub fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            if fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|f| f.starts_with("uint") || f.starts_with("int"))
            {
                fields.remove("format");
            }
            without_null(fields);
            collapse_constants(fields);
            fields.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn without_null(fields: &mut serde_json::Map<String, Value>) {
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    if let Some(Value::Array(mut choices)) = fields.remove("anyOf") {
        choices.retain(|c| c.get("type").and_then(Value::as_str) != Some("null"));
        match choices.pop() {
            Some(Value::Object(only)) if choices.is_empty() => {
                for (name, value) in only {
                    fields.entry(name).or_insert(value);
                }
            }
            Some(last) => {
                choices.push(last);
                fields.insert("anyOf".to_owned(), Value::Array(choices));
            }
            None => {}
        }
    }
}

/// `oneOf` of described constants is an `enum` whose words are explained in the field's own description.
pub fn collapse_constants(fields: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(choices)) = fields.get("oneOf") else { return };
    let constants: Option<Vec<Value>> = choices.iter().map(|c| c.get("const").cloned()).collect();
    if let Some(constants) = constants {
        fields.remove("oneOf");
        fields.insert("type".to_owned(), Value::from("string"));
        fields.insert("enum".to_owned(), Value::Array(constants));
    }
}
