//! Canonical JSON: one text for one value, so that digests and comparisons mean the same on both sides.
//!
//! Claude Code parses a tool's input with JavaScript and writes it again: `1.0` comes back as `1`, a 20-digit integer comes
//! back rounded. So a value is canonical when every number is one that a double holds, in one spelling.
//!
//! Invariant: `canonical(v).text()` parses back to an equal value, and two equal values have one text.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::digest::Digest;

/// Integers up to 2^53 are the ones that a double holds without gaps.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number that a double can't hold, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the number {number} at {at} can't be held by a double and would be changed on its way; pass it as a string"
)]
pub struct InexactNumber {
    /// The number as written.
    pub number: String,
    /// JSON pointer to it.
    pub at: String,
}

/// A JSON value as canonical text: sorted keys, no white space, one spelling for each number.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CanonicalJson(String);

impl CanonicalJson {
    /// The canonical form of `value`.
    ///
    /// # Errors
    /// Where a number in it can't be held by a double.
    pub fn of(value: &Value) -> Result<Self, InexactNumber> {
        let mut at = String::new();
        Ok(Self(normalise(value, &mut at)?.to_string()))
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The value. `Null` for a text that did not come from [`CanonicalJson::of`], as only a damaged frame holds.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    /// The digest of the text.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for CanonicalJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value, where it is a number in its canonical spelling: a client's `30.0` is the integer 30. What a double can't hold
/// stays as it is.
#[must_use]
pub fn respelled(value: &Value) -> Value {
    match value {
        Value::Number(number) => normalise_number(number, "").map_or_else(|_| value.clone(), Value::Number),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => value.clone(),
    }
}

fn normalise(value: &Value, at: &mut String) -> Result<Value, InexactNumber> {
    Ok(match value {
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
        Value::Number(number) => Value::Number(normalise_number(number, at)?),
        Value::Array(items) => {
            let mut normal = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                normal.push(below(at, &index.to_string(), |at| normalise(item, at))?);
            }
            Value::Array(normal)
        }
        Value::Object(fields) => {
            // Sorted here, so that the text does not depend on which map serde_json was built with.
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            let mut normal = Map::new();
            for name in names {
                normal.insert(name.clone(), below(at, name, |at| normalise(&fields[name], at))?);
            }
            Value::Object(normal)
        }
    })
}

fn below<T>(at: &mut String, step: &str, inner: impl FnOnce(&mut String) -> T) -> T {
    let length = at.len();
    at.push('/');
    at.push_str(&step.replace('~', "~0").replace('/', "~1"));
    let result = inner(at);
    at.truncate(length);
    result
}

fn normalise_number(number: &Number, at: &str) -> Result<Number, InexactNumber> {
    let inexact = || InexactNumber {
        number: number.to_string(),
        at: if at.is_empty() { "/".to_owned() } else { at.to_owned() },
    };
    let double = number.as_f64().filter(|d| d.is_finite()).ok_or_else(inexact)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "2^64 fits an i128, and a larger double saturates to no integer of ours"
    )]
    let whole = double as i128;
    let exact = match (number.as_u64(), number.as_i64()) {
        (Some(n), _) => whole == i128::from(n),
        (None, Some(n)) => whole == i128::from(n),
        (None, None) => true,
    };
    if !exact {
        return Err(inexact());
    }
    if double.fract() == 0.0 && double.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^53 in size")]
        return Ok(Number::from(double as i64));
    }
    Number::from_f64(double).ok_or_else(inexact)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_values_have_one_text() {
        let a: Value = serde_json::from_str(r#"{"b":1.0,"a":[1e2,-0.0,0.1]}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{ "a":[100,0,0.1], "b":1 }"#).unwrap();
        assert_eq!(CanonicalJson::of(&a), CanonicalJson::of(&b));
        assert_eq!(CanonicalJson::of(&a).unwrap().text(), r#"{"a":[100,0,0.1],"b":1}"#);
    }

    #[test]
    fn what_a_double_rounds_is_refused_and_named() {
        for text in ["12345678901234567890", "9007199254740993", "-9007199254740993", "18446744073709551615"]
        {
            let value: Value = serde_json::from_str(&format!(r#"{{"x":[{text}]}}"#)).unwrap();
            let refused = CanonicalJson::of(&value).unwrap_err();
            assert_eq!(refused, InexactNumber { number: text.to_owned(), at: "/x/0".to_owned() });
        }
        for text in ["9007199254740992", "9007199254740994", "18446744073709549568", "1e300", "5e-324", "-1"]
        {
            let value: Value = serde_json::from_str(text).unwrap();
            assert!(CanonicalJson::of(&value).is_ok(), "{text}");
        }
    }

    #[test]
    fn an_integer_and_its_double_are_one_value() {
        // What JavaScript makes of 9007199254740994 and of 1e21.
        assert_eq!(
            CanonicalJson::of(&json!(9_007_199_254_740_994_u64)),
            CanonicalJson::of(&json!(9_007_199_254_740_994.0))
        );
        assert_eq!(CanonicalJson::of(&json!(1e21)).unwrap().value(), json!(1e21));
    }

    proptest::proptest! {
        #[test]
        fn canonical_is_a_fixed_point(double in proptest::num::f64::NORMAL) {
            let once = CanonicalJson::of(&json!(double)).unwrap();
            proptest::prop_assert_eq!(CanonicalJson::of(&once.value()).unwrap(), once);
        }
    }
}
