//! Finds the lines with the text in a file, or in a piece of a large one.
//!
//! Invariant: each line belongs to the one piece in which it starts, so pieces can be searched at the same time.
//! Invariant: memory is bounded however long a line or a file is.

use std::{fs::File, io, os::unix::fs::FileExt};

use memchr::{memchr, memchr_iter, memrchr};
use protocol::limits::LINE_PREVIEW_BYTES;

use super::needle::Needle;

/// Bytes read at once: what the second-level cache holds beside the text's tables.
pub(super) const CHUNK: usize = 256 * 1024;

/// A line longer than this is searched in parts.
const LONGEST_LINE: usize = 1024 * 1024;

/// Marks the ends of a line that are not shown.
const CUT: &str = "…";

/// Where in the file the lines of a piece start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The whole file.
pub(super) const WHOLE: Span = Span { start: 0, end: u64::MAX };

/// A line with the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// Lines of the piece before it.
    pub(super) line: u64,
    /// Characters before the text in its line, and 1.
    pub(super) column: u64,
    /// The line, or the part of it around the text.
    pub(super) text: String,
    /// Offsets of the line's first byte and of its end in the file; none for a line searched in parts.
    pub(super) at: Option<(u64, u64)>,
}

/// What a piece holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The first of its lines with the text.
    pub(super) hits: Vec<Hit>,
    /// All of its lines with the text, as far as it was searched.
    pub(super) count: u64,
    /// Of these, the ones that are not UTF-8 and so not shown.
    pub(super) not_utf8: u64,
    /// Lines that end in it.
    pub(super) lines: u64,
}

/// How much of a piece is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Hits that are kept.
    pub(super) most_hits: usize,
    /// Bytes of their text that are kept.
    pub(super) most_bytes: usize,
    /// Whether the lines after the last kept hit are counted too.
    pub(super) counts_all: bool,
}

/// Bytes of a file in memory.
#[derive(Debug, Default)]
pub(super) struct Window {
    buffer: Vec<u8>,
    filled: usize,
    /// Offset of the first of them.
    base: u64,
    at_end: bool,
}

impl Window {
    /// Starts over with the bytes from `base` on.
    pub(super) fn open(&mut self, file: &File, base: u64) -> io::Result<()> {
        if self.buffer.len() < CHUNK {
            self.buffer.resize(CHUNK, 0);
        }
        self.filled = 0;
        self.base = base;
        self.at_end = false;
        self.fill(file)
    }

    fn fill(&mut self, file: &File) -> io::Result<()> {
        while self.filled < self.buffer.len() && !self.at_end {
            match file.read_at(&mut self.buffer[self.filled..], self.base + self.filled as u64) {
                Ok(0) => self.at_end = true,
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn drop_first(&mut self, bytes: usize) {
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        self.base += bytes as u64;
    }

    /// The bytes that are there.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Whether the file ends with them.
    pub(super) const fn holds_the_end(&self) -> bool {
        self.at_end
    }

    /// Gives back what one long line took.
    pub(super) fn shrink(&mut self) {
        self.buffer.truncate(CHUNK);
        self.buffer.shrink_to_fit();
    }
}

/// Where the text stands: in the bytes of its line that are at hand, in the line, and the line in the file.
struct Spot {
    start: usize,
    end: usize,
    column: u64,
    at: Option<(u64, u64)>,
}

/// A search of one piece.
pub(super) struct Search<'a> {
    needle: &'a Needle,
    extent: Extent,
    span: Span,
    found: Found,
    kept_bytes: usize,
    /// The line that goes on from the part before: its characters so far, and whether it was a hit.
    part: Option<(u64, bool)>,
}

impl<'a> Search<'a> {
    /// A search of the lines that start in `span`.
    pub(super) fn new(needle: &'a Needle, extent: Extent, span: Span) -> Self {
        Search { needle, extent, span, found: Found::default(), kept_bytes: 0, part: None }
    }

    /// Searches the lines. The window is open at the span's start, or a byte before it where that
    /// is not the file's. `goes_on` is asked after each chunk.
    pub(super) fn run(
        mut self,
        file: &File,
        window: &mut Window,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<Found> {
        let span = self.span;
        if span.start > 0 && !to_first_line(file, window, span)? {
            return Ok(self.found);
        }
        loop {
            let Region { until, is_last } = region(window, span.end);
            if until == 0 && !is_last {
                self.longer_than_the_window(window);
            } else {
                let counts = !(is_last && span.end == u64::MAX);
                self.lines(&window.buffer[..until], window.base, counts);
                window.drop_first(until);
            }
            let enough = !self.extent.counts_all && self.found.count > self.extent.most_hits as u64;
            if is_last || enough || !goes_on() {
                return Ok(self.found);
            }
            window.fill(file)?;
        }
    }

    /// No line ends in the window: makes it larger, or searches it as a part of its line.
    fn longer_than_the_window(&mut self, window: &mut Window) {
        if window.buffer.len() < LONGEST_LINE {
            window.buffer.resize(window.buffer.len() * 2, 0);
            return;
        }
        let overlap = self.needle.longest().min(window.filled - 1);
        let part_end = window.filled - overlap;
        let (before, was_hit) = self.part.unwrap_or_default();
        let place = self.needle.find(window.bytes(), 0).filter(|(start, _)| *start < part_end && !was_hit);
        if let Some((start, end)) = place {
            let column = before + characters(&window.buffer[..start]) + 1;
            self.hit(window.bytes(), &Spot { start, end, column, at: None });
        }
        self.part = Some((before + characters(&window.buffer[..part_end]), was_hit || place.is_some()));
        window.drop_first(part_end);
    }

    /// Searches whole lines; the first may be the end of one that was searched in parts.
    fn lines(&mut self, bytes: &[u8], base: u64, counts: bool) {
        let mut from = 0;
        let mut counted = 0;
        while let Some((start, end)) = self.needle.find(bytes, from) {
            let line_start = memrchr(b'\n', &bytes[from..start]).map_or(from, |at| from + at + 1);
            let line_end = memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |at| end + at);
            self.found.lines += newlines(&bytes[counted..line_start]);
            counted = line_start;
            let part = self.part.filter(|_| line_start == 0);
            if part.is_none_or(|(_, was_hit)| !was_hit) {
                let before = part.map_or(0, |(before, _)| before);
                let column = before + characters(&bytes[line_start..start]) + 1;
                let at = part.is_none().then_some((base + line_start as u64, base + line_end as u64));
                let (start, end) = (start - line_start, end - line_start);
                self.hit(&bytes[line_start..line_end], &Spot { start, end, column, at });
            }
            from = line_end + 1;
            let enough = !self.extent.counts_all && self.found.count > self.extent.most_hits as u64;
            if from >= bytes.len() || enough {
                break;
            }
        }
        if counts {
            self.found.lines += newlines(&bytes[counted..]);
        }
        self.part = None;
    }

    fn hit(&mut self, line: &[u8], spot: &Spot) {
        self.found.count += 1;
        let Some(text) = preview(line, (spot.start, spot.end)) else {
            self.found.not_utf8 += 1;
            return;
        };
        if self.found.hits.len() < self.extent.most_hits && self.kept_bytes < self.extent.most_bytes {
            self.kept_bytes += text.len();
            let &Spot { column, at, .. } = spot;
            self.found.hits.push(Hit { line: self.found.lines, column, text, at });
        }
    }
}

/// Drops what stands before the first line that starts in the span; false where none does.
fn to_first_line(file: &File, window: &mut Window, span: Span) -> io::Result<bool> {
    loop {
        match memchr(b'\n', window.bytes()) {
            Some(at) if window.base + (at as u64) + 1 < span.end => {
                window.drop_first(at + 1);
                window.fill(file)?;
                return Ok(window.filled > 0);
            }
            Some(_) => return Ok(false),
            None if window.at_end || window.base + window.filled as u64 >= span.end => return Ok(false),
            None => {
                window.drop_first(window.filled);
                window.fill(file)?;
            }
        }
    }
}

/// How far a window's whole lines go.
struct Region {
    /// Where the last of them ends.
    until: usize,
    /// Whether no line after it is the piece's.
    is_last: bool,
}

fn region(window: &Window, end: u64) -> Region {
    let bytes = window.bytes();
    if window.base + (bytes.len() as u64) >= end {
        // The line before the first that starts at `end` or later is the piece's last.
        let from = usize::try_from((end - 1).saturating_sub(window.base)).unwrap_or(bytes.len());
        if let Some(at) = bytes.get(from..).and_then(|rest| memchr(b'\n', rest)) {
            return Region { until: from + at + 1, is_last: true };
        }
    }
    if window.at_end {
        return Region { until: bytes.len(), is_last: true };
    }
    Region { until: memrchr(b'\n', bytes).map_or(0, |at| at + 1), is_last: false }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// Characters that start in `bytes`.
fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| !is_continuation(**byte)).count() as u64
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// A line as it is shown; none where what is to be shown is not UTF-8.
pub(super) fn preview(line: &[u8], (start, end): (usize, usize)) -> Option<String> {
    let line = line.strip_suffix(b"\r").filter(|_| end < line.len()).unwrap_or(line);
    if line.len() <= LINE_PREVIEW_BYTES {
        return std::str::from_utf8(line).ok().map(str::to_owned);
    }
    let room = LINE_PREVIEW_BYTES - 2 * CUT.len();
    let mut from = start.saturating_sub(room.saturating_sub(end - start) / 2).min(line.len() - room);
    let mut to = from + room;
    while from < to && is_continuation(line[from]) {
        from += 1;
    }
    while to > from && to < line.len() && is_continuation(line[to]) {
        to -= 1;
    }
    let shown = std::str::from_utf8(&line[from..to]).ok()?;
    let (before, after) = (if from > 0 { CUT } else { "" }, if to < line.len() { CUT } else { "" });
    Some(format!("{before}{shown}{after}"))
}
