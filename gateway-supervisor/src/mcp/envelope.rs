//! The outside of a JSON-RPC message: which kind it is, its method and its id, whatever stands inside.
//!
//! An error on `/mcp` has to carry the request's id, or a client in between can't match it to its call. So the id is read before
//! anything else is judged, and also from a body that was cut off or breaks later on.
//!
//! Invariant: reading takes no recursion, so that no depth of nesting can overflow the stack.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A request's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

/// A message, as far as its outside tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    /// It waits for an answer.
    Request { id: Id, method: String },
    /// It waits for none.
    Notification,
    /// It is no message that a server takes.
    Malformed { id: Option<Id>, code: i32, text: String },
}

/// JSON-RPC: the body is not JSON.
pub(super) const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the body is JSON and no request.
pub(super) const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: no such method.
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: the method's params are wrong.
pub(super) const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: a fault of the server.
pub(super) const INTERNAL_ERROR: i32 = -32603;

/// Reads a whole body.
pub(super) fn read(body: &[u8]) -> Envelope {
    let mut seen = Seen::default();
    let malformed =
        |seen: Seen, code, text: &str| Envelope::Malformed { id: seen.id(), code, text: text.to_owned() };
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(_) => return malformed(seen.skimmed(body), PARSE_ERROR, "parse error: the body is not UTF-8"),
    };
    let mut json = serde_json::Deserializer::from_str(text);
    if let Err(error) = (&mut seen).deserialize(&mut json).and_then(|()| json.end()) {
        return malformed(seen, PARSE_ERROR, &format!("parse error: the body is not JSON: {error}"));
    }
    let problem = match (&seen.top, &seen.version, &seen.id, &seen.method) {
        (Top::Array, ..) => "invalid request: batches are not taken; send one message per request",
        (Top::Scalar, ..) => "invalid request: expected a JSON-RPC message, which is an object",
        (Top::Object, ..) if seen.repeated => {
            "invalid request: `jsonrpc`, `id` and `method` stand once in a message"
        }
        (Top::Object, Field::Text(version), ..) if version != "2.0" => {
            "invalid request: expected `jsonrpc` to be \"2.0\""
        }
        (Top::Object, Field::Absent | Field::Number(_) | Field::Other, ..) => {
            "invalid request: expected `jsonrpc` to be \"2.0\""
        }
        (Top::Object, Field::Text(_), Field::Other, _) => {
            "invalid request: expected `id` to be a string or an integer"
        }
        (Top::Object, Field::Text(_), _, Field::Absent) => {
            "invalid request: it has no `method`; this server takes no responses"
        }
        (Top::Object, Field::Text(_), _, Field::Number(_) | Field::Other) => {
            "invalid request: expected `method` to be a string"
        }
        (Top::Object, Field::Text(_), _, Field::Text(method)) => {
            return match seen.id.clone().id() {
                Some(id) => Envelope::Request { id, method: method.clone() },
                None => Envelope::Notification,
            };
        }
    };
    malformed(seen, INVALID_REQUEST, problem)
}

/// The id in the begin of a body, if it got that far.
pub(super) fn id_in(begin: &[u8]) -> Option<Id> {
    Seen::default().skimmed(begin).id()
}

#[derive(Debug, Default)]
enum Top {
    Object,
    Array,
    #[default]
    Scalar,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Field {
    #[default]
    Absent,
    Text(String),
    Number(i64),
    Other,
}

impl Field {
    fn id(self) -> Option<Id> {
        match self {
            Self::Text(text) => Some(Id::Text(text)),
            Self::Number(number) => Some(Id::Number(number)),
            Self::Absent | Self::Other => None,
        }
    }
}

/// What was read so far; it keeps its value when the rest can't be read.
#[derive(Debug, Default)]
struct Seen {
    top: Top,
    version: Field,
    id: Field,
    method: Field,
    repeated: bool,
}

impl Seen {
    fn id(self) -> Option<Id> {
        self.id.id()
    }

    fn skimmed(mut self, begin: &[u8]) -> Self {
        let valid = match std::str::from_utf8(begin) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&begin[..error.valid_up_to()]).unwrap_or_default(),
        };
        // It ends in an error where the text ends early, which is what a skimmed text does.
        let _ = (&mut self).deserialize(&mut serde_json::Deserializer::from_str(valid));
        self
    }
}

impl<'de> DeserializeSeed<'de> for &mut Seen {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Seen {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.top = Top::Object;
        while let Some(name) = map.next_key::<String>()? {
            let place = match name.as_str() {
                "jsonrpc" => &mut self.version,
                "id" => &mut self.id,
                "method" => &mut self.method,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let field = map.next_value()?;
            self.repeated |= *place != Field::Absent;
            *place = field;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.top = Top::Array;
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Field, E> {
        Ok(Field::Text(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Field, E> {
        Ok(Field::Number(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Field, E> {
        Ok(i64::try_from(number).map_or(Field::Other, Field::Number))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Field, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Other)
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    fn refused(body: &str) -> (i32, Option<Id>) {
        match read(body.as_bytes()) {
            Envelope::Malformed { id, code, .. } => (code, id),
            other @ (Envelope::Request { .. } | Envelope::Notification) => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn requests_and_notifications_are_told_apart() {
        let request = |id, method: &str| Envelope::Request { id, method: method.to_owned() };
        assert_eq!(read(br#"{"jsonrpc":"2.0","id":7,"method":"a"}"#), request(Id::Number(7), "a"));
        assert_eq!(
            read(br#" {"method":"b","params":[{}],"id":"x","jsonrpc":"2.0"} "#),
            request(Id::Text("x".into()), "b")
        );
        assert_eq!(read(br#"{"jsonrpc":"2.0","method":"a"}"#), Envelope::Notification);
    }

    #[test]
    fn what_is_no_request_keeps_its_id_where_it_has_one() {
        let one = Some(Id::Number(1));
        for (body, code, id) in [
            ("", PARSE_ERROR, None),
            ("nope", PARSE_ERROR, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a""#, PARSE_ERROR, one.clone()),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a"} x"#, PARSE_ERROR, one.clone()),
            ("[]", INVALID_REQUEST, None),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#, INVALID_REQUEST, None),
            ("5", INVALID_REQUEST, None),
            ("null", INVALID_REQUEST, None),
            (r#""text""#, INVALID_REQUEST, None),
            (r#"{"id":1,"method":"a"}"#, INVALID_REQUEST, one.clone()),
            (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, INVALID_REQUEST, one.clone()),
            (r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#, INVALID_REQUEST, one.clone()),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":{"a":[1]},"method":"a"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"a"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST, one.clone()),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, INVALID_REQUEST, one.clone()),
            (r#"{"jsonrpc":"2.0","id":1,"method":["a"]}"#, INVALID_REQUEST, one.clone()),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#, INVALID_REQUEST, one),
        ] {
            assert_eq!(refused(body), (code, id), "{body}");
        }
    }

    #[test]
    fn no_depth_overflows_the_stack() {
        let deep = 1_000_000;
        let (open, close) = ("[".repeat(deep), "]".repeat(deep));
        let body = format!(r#"{{"jsonrpc":"2.0","id":3,"params":{open}{close},"method":"a"}}"#);
        assert_eq!(read(body.as_bytes()), Envelope::Request { id: Id::Number(3), method: "a".into() });
        let body = format!(r#"{{"jsonrpc":"2.0","id":{open}{close},"method":"a"}}"#);
        assert_eq!(refused(&body).1, None);
        assert_eq!(refused(&format!("{open}{close}")), (INVALID_REQUEST, None));
        assert_eq!(refused(&open), (PARSE_ERROR, None));
    }

    #[test]
    fn the_id_is_found_in_a_cut_body() {
        let whole = br#"{"jsonrpc":"2.0","id":"call-9","method":"tools/call","params":{"text":"aaaa"#;
        assert_eq!(id_in(whole), Some(Id::Text("call-9".into())));
        assert_eq!(id_in(&whole[..20]), None);
        assert_eq!(id_in(b"{\"id\":5,\"text\":\"\xff\xfe"), Some(Id::Number(5)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (read(&body), id_in(&body));
        }
    }
}
