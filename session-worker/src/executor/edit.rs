//! `Edit`: replaces the matched bytes of a text and nothing else.
//!
//! A pure function from bytes to bytes. The text is never decoded, normalised or split into lines to be
//! joined again: the result is the original with the matches cut out and the new text put in (X5).
//!
//! Line endings: an old text without a carriage return matches whatever ending each line has (LF or CRLF),
//! and the new text takes the endings of the place where it lands. A text that itself holds a carriage
//! return is taken to the letter.
//!
//! Invariant: every byte outside the matches is in the result, in the same order.
//! Invariant: work is linear in the size of the text, whatever the texts are.

mod endings;
mod matching;
mod nearest;
#[cfg(test)]
mod tests;

use std::fmt;

use endings::{LineEnds, NewText, Piece};
use matching::Match;
pub(crate) use nearest::NoMatch;
use protocol::failure::ToolErrorCode;

pub(crate) use protocol::limits::TEXT_BYTES as MAX_TEXT_BYTES;

/// How many line numbers of an ambiguous match are listed.
const MAX_LISTED_LINES: usize = 20;

/// Which matches an edit replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplaceMode {
    /// The only match; more than one is an error.
    Only,
    /// Every match, from the front, not overlapping.
    Every,
}

/// A finished edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edited {
    /// The whole new text.
    pub(crate) content: Vec<u8>,
    /// How many places were replaced, at least 1.
    pub(crate) replaced: usize,
    /// The line (from 1) where the first replaced place starts.
    pub(crate) first_line: usize,
}

/// Why a text was not edited. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditError {
    /// The text is not UTF-8; `offset` is the first byte that is not.
    NotUtf8 { offset: usize },
    /// The text before or after is larger than `MAX_TEXT_BYTES`.
    TooLarge { bytes: usize },
    /// The old text is empty.
    EmptyOld,
    /// The edit would change nothing.
    Unchanged,
    /// The old text is nowhere in the text.
    NoMatch(NoMatch),
    /// The old text stands in several places and only one was asked for.
    Ambiguous {
        /// How many places.
        count: usize,
        /// The lines (from 1) where the first of them start.
        lines: Vec<usize>,
    },
}

/// Replaces `old` by `new` in `before`.
///
/// # Errors
/// [`EditError`]: the text is not UTF-8 or too large, the old text is empty, absent or ambiguous, or nothing
/// would change.
pub(crate) fn edit(before: &[u8], old: &str, new: &str, mode: ReplaceMode) -> Result<Edited, EditError> {
    if before.len() > MAX_TEXT_BYTES {
        return Err(EditError::TooLarge { bytes: before.len() });
    }
    let text = std::str::from_utf8(before).map_err(|e| EditError::NotUtf8 { offset: e.valid_up_to() })?;
    if old.is_empty() {
        return Err(EditError::EmptyOld);
    }
    if old == new {
        return Err(EditError::Unchanged);
    }
    let matches = matching::find(text, old);
    let Some(first) = matches.first() else {
        return Err(EditError::NoMatch(nearest::explain(text, old)));
    };
    if mode == ReplaceMode::Only {
        refuse_ambiguous(text, old, &matches)?;
    }
    let first_line = line_of(before, first.start);
    let content = splice(text, (old, new), &matches)?;
    if content == before {
        return Err(EditError::Unchanged);
    }
    Ok(Edited { content, replaced: matches.len(), first_line })
}

/// Refuses when a second place would have matched as well, also one that overlaps the first.
fn refuse_ambiguous(text: &str, old: &str, matches: &[Match]) -> Result<(), EditError> {
    let mut starts: Vec<usize> = matches.iter().take(MAX_LISTED_LINES).map(|found| found.start).collect();
    let mut count = matches.len();
    if let [only] = matches
        && let Some(overlapping) = matching::next_after(text, old, only)
    {
        starts.push(overlapping.start);
        count += 1;
    }
    if count == 1 {
        return Ok(());
    }
    Err(EditError::Ambiguous { count, lines: lines_of(text.as_bytes(), &starts) })
}

fn splice(text: &str, (old, new): (&str, &str), matches: &[Match]) -> Result<Vec<u8>, EditError> {
    let new_text = NewText::prepare(text, old, new);
    let mut lines = LineEnds::new(text);
    // Places differ in their line endings, so each gets a piece of its own.
    let pieces: Vec<Piece<'_>> = matches.iter().map(|&found| new_text.fit(&mut lines, found)).collect();
    // The size is known before the result is allocated: a short match replaced by a long text, many times,
    // would fill the memory.
    let cut: usize = pieces.iter().map(|piece| piece.end - piece.start).sum();
    let put = pieces.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.text.len()));
    let size = (text.len() - cut).saturating_add(put);
    if size > MAX_TEXT_BYTES {
        return Err(EditError::TooLarge { bytes: size });
    }
    let mut content = Vec::with_capacity(size);
    let mut kept_from = 0;
    for piece in &pieces {
        content.extend_from_slice(&text.as_bytes()[kept_from..piece.start]);
        content.extend_from_slice(piece.text.as_bytes());
        kept_from = piece.end;
    }
    content.extend_from_slice(&text.as_bytes()[kept_from..]);
    Ok(content)
}

/// The line, from 1, of the byte at `offset`.
fn line_of(text: &[u8], offset: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &text[..offset]).count()
}

/// The lines, from 1, of ascending `offsets`, in one pass.
fn lines_of(text: &[u8], offsets: &[usize]) -> Vec<usize> {
    let mut line = 1;
    let mut counted = 0;
    offsets
        .iter()
        .map(|&offset| {
            line += memchr::memchr_iter(b'\n', &text[counted..offset]).count();
            counted = offset;
            line
        })
        .collect()
}

impl EditError {
    /// The stable code that the tool's result carries.
    pub(crate) fn code(&self) -> ToolErrorCode {
        match self {
            Self::NotUtf8 { .. } => ToolErrorCode::NotUtf8,
            Self::TooLarge { .. } => ToolErrorCode::TooLarge,
            Self::EmptyOld => ToolErrorCode::InvalidArgument,
            Self::Unchanged => ToolErrorCode::NotApplied,
            Self::NoMatch(_) => ToolErrorCode::NoMatch,
            Self::Ambiguous { .. } => ToolErrorCode::AmbiguousMatch,
        }
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 { offset } => write!(
                f,
                "the file is not UTF-8 text: byte {offset} (from 0) begins no character; it was left as it is, \
                 change it with a command or convert it to UTF-8 first"
            ),
            Self::TooLarge { bytes } => write!(
                f,
                "the text has {bytes} bytes and at most {MAX_TEXT_BYTES} are edited; split the file or the change"
            ),
            Self::EmptyOld => f.write_str(
                "old_string is empty, so there is no place to change; give the text to replace, \
                 or use Write for a new or whole file",
            ),
            Self::Unchanged => f.write_str(
                "the edit changes nothing: the text there already is new_string; \
                 read the file again to see what it holds",
            ),
            Self::NoMatch(no_match) => no_match.fmt(f),
            Self::Ambiguous { count, lines } => {
                let shown: Vec<String> = lines.iter().map(usize::to_string).collect();
                let more = if *count > lines.len() { ", …" } else { "" };
                write!(
                    f,
                    "old_string matches {count} places (lines {}{more}); give more of the text around the one \
                     that is meant, or set replace_all",
                    shown.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for EditError {}
