//! Which Claude Code this is, and whether this release was tried with it.

/// The versions that the gateway was tried with. Another one is named, not refused.
const VERIFIED: [&str; 2] = ["2.1.247", "2.1.332"];

/// What is said of a Claude Code that does not say its version.
pub(crate) const UNKNOWN: &str = "unknown";

/// The version's number in what Claude Code says of itself: `2.1.247 (Claude Code)` or `2.1.247`.
pub(crate) fn number(said: &str) -> &str {
    let first = said.split_whitespace().next().unwrap_or(UNKNOWN);
    let plain = !first.is_empty()
        && first.len() <= 64
        && first.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'));
    if plain { first } else { UNKNOWN }
}

/// Whether this release was tried with it.
pub(crate) fn verified(number: &str) -> bool {
    VERIFIED.contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_what_it_says() {
        assert_eq!(number("2.1.247 (Claude Code)\n"), "2.1.247");
        assert_eq!(number("2.1.332"), "2.1.332");
        for said in ["", "\n", "<script>", "a\u{1b}[0m"] {
            assert_eq!(number(said), UNKNOWN, "{said:?}");
        }
        assert!(verified("2.1.247") && !verified("2.1.248") && !verified(UNKNOWN));
    }
}
