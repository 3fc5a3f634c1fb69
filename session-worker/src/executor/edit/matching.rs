//! Where the old text stands in a text.
//!
//! Invariant: a match never splits a CRLF that the old text asked for as one line ending.
//! Invariant: every search is one linear substring search, over the text or over a copy with LF endings.

use std::ops::Range;

use memchr::memmem;

/// A place where the old text stands, in bytes of the original text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    /// First byte.
    pub(super) start: usize,
    /// One past the last byte.
    pub(super) end: usize,
}

impl Match {
    pub(super) fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// Whether the old text's line endings stand for any ending (it has line feeds and no carriage return).
pub(super) fn any_ending(old: &str) -> bool {
    old.contains('\n') && !old.contains('\r')
}

/// Every place, from the front, not overlapping.
pub(super) fn find(text: &str, old: &str) -> Vec<Match> {
    match Unified::wanted(text, old) {
        None => memmem::find_iter(text.as_bytes(), old)
            .map(|start| Match { start, end: start + old.len() })
            .collect(),
        Some(unified) => {
            let mut places = unified.places();
            memmem::find_iter(unified.text.as_slice(), old)
                .map(|start| places.original(start, start + old.len()))
                .collect()
        }
    }
}

/// The first place that starts behind the start of `found`, also one that overlaps it.
pub(super) fn next_after(text: &str, old: &str, found: &Match) -> Option<Match> {
    // The next start is at least one character on; in a CRLF at the start of the match that is two bytes.
    let skip = if any_ending(old) && text.as_bytes()[found.range()].starts_with(b"\r\n") { 2 } else { 1 };
    let from = found.start + skip;
    // Only an overlapping place is asked for: no need to look further than twice the match.
    let mut end = text.len().min(found.end + (found.end - found.start) * 2 + 2);
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let mut from_boundary = from;
    while !text.is_char_boundary(from_boundary) {
        from_boundary += 1;
    }
    let rest = text.get(from_boundary..end)?;
    find(rest, old)
        .first()
        .map(|next| Match { start: next.start + from_boundary, end: next.end + from_boundary })
}

/// A copy of a text with every CRLF turned into LF, and the way back.
struct Unified {
    text: Vec<u8>,
    /// Where, in the copy, stands a line feed that was a CRLF; ascending.
    shortened: Vec<usize>,
}

impl Unified {
    /// The copy, where it is needed: the old text asks for any ending and the text has CRLF somewhere.
    fn wanted(text: &str, old: &str) -> Option<Self> {
        if !any_ending(old) {
            return None;
        }
        let bytes = text.as_bytes();
        let mut crlf = memmem::find_iter(bytes, b"\r\n").peekable();
        crlf.peek()?;
        let mut unified = Self { text: Vec::with_capacity(bytes.len()), shortened: Vec::new() };
        let mut copied = 0;
        for at in crlf {
            unified.text.extend_from_slice(&bytes[copied..at]);
            unified.shortened.push(unified.text.len());
            copied = at + 1;
        }
        unified.text.extend_from_slice(&bytes[copied..]);
        Some(unified)
    }

    fn places(&self) -> Places<'_> {
        Places { shortened: &self.shortened, passed: 0 }
    }
}

/// Translates ascending offsets of the copy into offsets of the original.
struct Places<'a> {
    shortened: &'a [usize],
    passed: usize,
}

impl Places<'_> {
    fn original(&mut self, start: usize, end: usize) -> Match {
        // A place that starts with a line ending starts before its carriage return, and one that ends with
        // a line ending ends behind its line feed: both count only the endings strictly before them.
        let start = self.offset(start);
        let end = self.offset(end);
        Match { start, end }
    }

    fn offset(&mut self, at: usize) -> usize {
        while self.shortened.get(self.passed).is_some_and(|&ending| ending < at) {
            self.passed += 1;
        }
        at + self.passed
    }
}
