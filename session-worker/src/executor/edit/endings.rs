//! The line endings of a place, and a new text fitted to them.
//!
//! Invariant: lines that the old and the new text share keep the very ending that they have.

use super::matching::{Match, any_ending};

/// What is put at one place: `text` instead of the bytes `start..end` of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: &'a str,
}

/// A new text, ready to be fitted to one place after another.
pub(super) enum NewText<'a> {
    /// Taken to the letter.
    Literal(&'a str),
    /// Written with the endings of the place.
    Fitted(Fitted<'a>),
}

/// What differs between the old and the new text, with both endings.
pub(super) struct Fitted<'a> {
    /// What the old and the new text share at the front and at the back: it is not written, so shared
    /// lines keep their endings.
    head: &'a str,
    tail: &'a str,
    with_lf: &'a str,
    with_crlf: String,
}

impl<'a> NewText<'a> {
    /// Prepares `new`, which is to stand in `text` where `old` stands.
    pub(super) fn prepare(text: &str, old: &'a str, new: &'a str) -> Self {
        // Carriage returns in either text mean that its author minds the endings; a new text without a
        // line feed has none to fit.
        let minds = old.contains('\r') || new.contains('\r');
        if minds || !(any_ending(old) || new.contains('\n')) {
            return Self::Literal(new);
        }
        if memchr::memmem::find(text.as_bytes(), b"\r\n").is_none() {
            return Self::Literal(new);
        }
        let (head, tail) = shared(old, new);
        let with_lf = &new[head..new.len() - tail];
        Self::Fitted(Fitted {
            head: &old[..head],
            tail: &old[old.len() - tail..],
            with_lf,
            with_crlf: with_lf.replace('\n', "\r\n"),
        })
    }

    /// Fits it to the place `found`; `lines` must be asked for places in ascending order.
    pub(super) fn fit(&self, lines: &mut LineEnds<'_>, found: Match) -> Piece<'_> {
        match self {
            Self::Literal(text) => Piece { start: found.start, end: found.end, text },
            Self::Fitted(fitted) => {
                let place = &lines.text[found.range()];
                let start = found.start + place_len_of(place, fitted.head, Side::Front);
                let end = found.end - place_len_of(place, fitted.tail, Side::Back);
                let crlf = fitted.with_lf.contains('\n') && lines.is_crlf_at(start, found);
                Piece { start, end, text: if crlf { &fitted.with_crlf } else { fitted.with_lf } }
            }
        }
    }
}

/// The lengths of the longest shared head and, of what is left, the longest shared tail.
fn shared(old: &str, new: &str) -> (usize, usize) {
    let mut head = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    while !(old.is_char_boundary(head) && new.is_char_boundary(head)) {
        head -= 1;
    }
    let (old, new) = (&old[head..], &new[head..]);
    let mut tail = old.bytes().rev().zip(new.bytes().rev()).take_while(|(a, b)| a == b).count();
    while !(old.is_char_boundary(old.len() - tail) && new.is_char_boundary(new.len() - tail)) {
        tail -= 1;
    }
    (head, tail)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Front,
    Back,
}

/// How many bytes of `place` the text `part` takes from one side, where each line feed may be a CRLF.
fn place_len_of(place: &str, part: &str, side: Side) -> usize {
    let place = place.as_bytes();
    let mut taken = 0;
    let mut step = |byte: u8| {
        let at = |taken: usize| match side {
            Side::Front => place.get(taken).copied(),
            Side::Back => place.len().checked_sub(taken + 1).and_then(|index| place.get(index)).copied(),
        };
        let crlf_here = match side {
            Side::Front => at(taken) == Some(b'\r') && at(taken + 1) == Some(b'\n'),
            Side::Back => at(taken) == Some(b'\n') && at(taken + 1) == Some(b'\r'),
        };
        taken += if byte == b'\n' && crlf_here { 2 } else { 1 };
    };
    match side {
        Side::Front => part.bytes().for_each(&mut step),
        Side::Back => part.bytes().rev().for_each(&mut step),
    }
    taken
}

/// How the lines of a text end, asked for ascending places: each line feed is looked for once.
pub(super) struct LineEnds<'a> {
    text: &'a str,
    next: NextLineFeed,
}

/// The line feed that ends the line of the last place that was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextLineFeed {
    Unasked,
    At(usize),
    /// None follows, here and for every later place: the text's last line feed, where it has one.
    LastWas(Option<usize>),
}

impl<'a> LineEnds<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, next: NextLineFeed::Unasked }
    }

    /// Whether a line written at `start`, within the place `found`, ends with CRLF: as the place's own
    /// endings do (the next one, else the one before), else as the line there ends, else, on a last line
    /// without an ending, as the line before it does.
    fn is_crlf_at(&mut self, start: usize, found: Match) -> bool {
        let bytes = self.text.as_bytes();
        let next = memchr::memchr(b'\n', &bytes[start..found.end]).map(|ahead| start + ahead);
        let before = || memchr::memrchr(b'\n', &bytes[found.start..start]).map(|at| found.start + at);
        let line_feed = next.or_else(before).or_else(|| self.line_feed_behind(start));
        line_feed.is_some_and(|at| at > 0 && bytes[at - 1] == b'\r')
    }

    /// The first line feed from `start` on, else the text's last.
    fn line_feed_behind(&mut self, start: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        match self.next {
            NextLineFeed::At(at) if at >= start => Some(at),
            NextLineFeed::LastWas(last) => last,
            NextLineFeed::Unasked | NextLineFeed::At(_) => {
                let ahead = memchr::memchr(b'\n', &bytes[start..]).map(|ahead| start + ahead);
                let last = || memchr::memrchr(b'\n', &bytes[..start]);
                self.next = ahead.map_or_else(|| NextLineFeed::LastWas(last()), NextLineFeed::At);
                ahead.or_else(last)
            }
        }
    }
}
