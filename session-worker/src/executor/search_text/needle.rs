//! The text that is looked for: literal, never a pattern.

use std::fmt;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use memchr::memmem;
use protocol::failure::ToolErrorCode;

use crate::executor::outcome::ToolFailure;

/// Longest text that is looked for: eight times what a result shows of one line.
const MOST_BYTES: usize = 16 * 1024;

/// The text to find. Cheap to search with, made once; each thread searches with its own clone.
#[derive(Clone)]
pub(super) enum Needle {
    /// To the byte.
    Exact(memmem::Finder<'static>),
    /// Whatever the case, by Unicode's simple folding.
    AnyCase(RegexMatcher, usize),
}

impl Needle {
    /// # Errors
    /// Where the text is too long.
    pub(super) fn of(query: &str, ignore_case: Option<bool>) -> Result<Self, ToolFailure> {
        if query.len() > MOST_BYTES {
            return Err(too_long(query.len()));
        }
        if ignore_case != Some(true) {
            return Ok(Needle::Exact(memmem::Finder::new(query).into_owned()));
        }
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(true)
            .case_insensitive(true)
            .line_terminator(Some(b'\n'))
            .build_literals(&[query])
            .map_err(|_| too_long(query.len()))?;
        // Folding can change how many bytes a character takes, to four at most.
        Ok(Needle::AnyCase(matcher, query.chars().count() * 4))
    }

    /// The first place of the text in `within`, from `at` on: its start and end.
    pub(super) fn find(&self, within: &[u8], at: usize) -> Option<(usize, usize)> {
        match self {
            Needle::Exact(finder) => {
                let start = at + finder.find(within.get(at..)?)?;
                Some((start, start + finder.needle().len()))
            }
            Needle::AnyCase(matcher, _) => {
                let found = matcher.find_at(within, at).ok()??;
                Some((found.start(), found.end()))
            }
        }
    }

    /// Bytes that a place of the text takes at most.
    pub(super) fn longest(&self) -> usize {
        match self {
            Needle::Exact(finder) => finder.needle().len(),
            Needle::AnyCase(_, longest) => *longest,
        }
    }
}

impl fmt::Debug for Needle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Needle").field("longest", &self.longest()).finish_non_exhaustive()
    }
}

fn too_long(bytes: usize) -> ToolFailure {
    ToolFailure::new(
        ToolErrorCode::TooLarge,
        format!(
            "searching for a text of {bytes} bytes: at most {MOST_BYTES} are looked for; take a part of it"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needle_is_no_pattern() {
        for ignore_case in [None, Some(false), Some(true)] {
            let needle = Needle::of("a.(b)*[c]$\\d", ignore_case).unwrap();
            assert_eq!(needle.find(b"xa.(b)*[c]$\\d", 0), Some((1, 13)));
            assert_eq!(needle.find(b"aXbbc5 a.(b)*[c]$\\", 0), None);
        }
    }

    #[test]
    fn case_is_folded_as_unicode_does() {
        let needle = Needle::of("STRAẞE Kk", Some(true)).unwrap();
        let text = "xx straße \u{212a}K";
        assert_eq!(needle.find(text.as_bytes(), 0), Some((3, text.len())));
        assert!(needle.longest() >= text.len() - 3);
        assert_eq!(Needle::of("É", None).unwrap().find("é".as_bytes(), 0), None);
        assert_eq!(Needle::of("É", Some(true)).unwrap().find("aé".as_bytes(), 0), Some((1, 3)));
    }

    #[test]
    fn a_needle_has_a_longest_length() {
        for ignore_case in [None, Some(true)] {
            let longest = Needle::of(&"é".repeat(MOST_BYTES / 2), ignore_case);
            assert!(longest.is_ok() || ignore_case == Some(true));
            let refusal = Needle::of(&"x".repeat(MOST_BYTES + 1), ignore_case).unwrap_err();
            assert_eq!(refusal.code, ToolErrorCode::TooLarge);
        }
    }
}
