//! Integers that reading the body as JSON would change.
//!
//! The JSON library holds an integer beyond 64 bits as a double, rounded, and nothing after it can tell. So such numbers are looked for in the
//! text itself, before it is read.
//!
//! Invariant: an integer that reaches a tool is the one that was written.

/// The first integer in a JSON text that neither 64 bits nor a double hold. A decimal fraction is a double by its nature.
pub(super) fn inexact(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = after_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let begin = at;
                while bytes
                    .get(at)
                    .is_some_and(|b| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
                {
                    at += 1;
                }
                if !held(&json[begin..at]) {
                    return Some(&json[begin..at]);
                }
            }
            _ => at += 1,
        }
    }
    None
}

fn after_string(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at + 1,
            Some(_) => at += 1,
        }
    }
}

fn held(literal: &str) -> bool {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if !digits.bytes().all(|b| b.is_ascii_digit())
        || literal.parse::<i64>().is_ok()
        || literal.parse::<u64>().is_ok()
    {
        return true;
    }
    // A double is written out in full here; where that is not what was written, it was rounded.
    literal.parse::<f64>().is_ok_and(|double| double.is_finite() && format!("{double:.0}") == literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_that_would_change_are_found() {
        for exact in [
            "",
            "{}",
            "[0,-1,1.5,0.1234567890123456789,1e300,9007199254740993]",
            "18446744073709551615",
            "-9223372036854775808",
            "36893488147419103232",
            r#"{"a":"123456789012345678901234567890","12345678901234567890123":1}"#,
            r#"["\"123456789012345678901234567890","\\",7]"#,
            r#"["open 123456789012345678901"#,
            r#"["\"#,
        ] {
            assert_eq!(inexact(exact), None, "{exact}");
        }
        for (json, found) in [
            ("18446744073709551617", "18446744073709551617"),
            (r#"{"a":["\\",-123456789012345678901234567891]}"#, "-123456789012345678901234567891"),
            (r#"["\\\"",36893488147419103233]"#, "36893488147419103233"),
        ] {
            assert_eq!(inexact(json), Some(found));
        }
    }
}
