//! Which Claude Code the gateway was tried with.

/// The versions that this release was verified with, the pinned one first. Another one is named, not refused.
pub const VERIFIED: [&str; 2] = ["2.1.247", "2.1.332"];

/// What is said of a Claude Code that does not say its version.
pub const UNKNOWN: &str = "unknown";

/// Longest version that is repeated: longer ones are no version, whatever wrote them.
const LONGEST: usize = 64;

/// The version's number in what Claude Code says of itself: `2.1.247 (Claude Code)` or `2.1.247`.
///
/// The text comes from another program and is shown to people: anything but a plain word is [`UNKNOWN`].
#[must_use]
pub fn number(said: &str) -> &str {
    let first = said.split_whitespace().next().unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
    if (1..=LONGEST).contains(&first.len()) && first.bytes().all(plain) { first } else { UNKNOWN }
}

/// Whether this release was verified with the version of that number.
#[must_use]
pub fn verified(number: &str) -> bool {
    VERIFIED.contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_number_is_repeated() {
        assert_eq!(number("2.1.247 (Claude Code)\n"), "2.1.247");
        for said in ["", "\n", "<b>", "a\u{1b}[0m", &"1".repeat(65)] {
            assert_eq!(number(said), UNKNOWN, "{said:?}");
        }
        assert!(verified("2.1.332") && !verified("2.1.248") && !verified(UNKNOWN));
    }
}
