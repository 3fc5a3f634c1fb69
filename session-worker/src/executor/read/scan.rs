//! One pass over a file: digest, UTF-8, lines and their endings, and the page.

use std::path::Path;

use memchr::{memchr, memchr_iter};
use protocol::{
    digest::{Digest, Hasher},
    failure::ToolErrorCode,
};

use super::page::Page;
use crate::executor::{display, outcome::ToolFailure};

/// The first byte that is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotUtf8 {
    offset: u64,
    line: u64,
    /// The file's first bytes.
    start: [u8; 2],
    /// Whether a NUL stands before it.
    binary: bool,
}

impl NotUtf8 {
    pub(super) fn failure(&self, path: &Path) -> ToolFailure {
        let looks = match self.start {
            [0xff, 0xfe] | [0xfe, 0xff] => "it looks like UTF-16",
            _ if self.binary => "it looks like binary data",
            _ => "it is in another encoding or binary",
        };
        ToolFailure::new(
            ToolErrorCode::NotUtf8,
            format!(
                "reading {}: it is not UTF-8 text (the first wrong byte is at offset {}, in line {}); {looks}, and only UTF-8 is shown",
                display::path(path),
                self.offset,
                self.line
            ),
        )
    }
}

/// What a pass found out.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) digest: Digest,
    pub(super) bytes: u64,
    pub(super) lines: u64,
    pub(super) page: Page,
    crlf: u64,
    lf: u64,
    ends_with_newline: bool,
    has_mark: bool,
}

impl Scanned {
    /// What a reader needs to know beside the lines.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.has_mark {
            notes.push("starts with a byte order mark, which is not shown".to_owned());
        }
        if self.crlf > 0 && self.lf == 0 {
            notes.push("lines end in CRLF".to_owned());
        } else if self.crlf > 0 {
            notes.push(format!("mixed line endings: {} CRLF, {} LF", self.crlf, self.lf));
        }
        if self.bytes > 0 && !self.ends_with_newline {
            notes.push("no newline at the end of the last line".to_owned());
        }
        if self.page.pictures > 0 {
            notes.push(format!(
                "{} control characters are shown as pictures such as ␛ for U+001B",
                self.page.pictures
            ));
        }
        notes
    }
}

/// A pass that is under way.
#[derive(Debug)]
pub(super) struct Scan {
    page: Page,
    hasher: Hasher,
    bytes: u64,
    /// The line that the next byte belongs to.
    line: u64,
    crlf: u64,
    newlines: u64,
    last_byte: Option<u8>,
    start: Vec<u8>,
    has_nul: bool,
    /// The start of a character whose end is in the next chunk.
    partial: Vec<u8>,
}

impl Scan {
    pub(super) fn new(page: Page) -> Self {
        Scan {
            page,
            hasher: Hasher::default(),
            bytes: 0,
            line: 1,
            crlf: 0,
            newlines: 0,
            last_byte: None,
            start: Vec::new(),
            has_nul: false,
            partial: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, chunk: &[u8]) -> Result<(), NotUtf8> {
        self.hasher.update(chunk);
        let missing = 3_usize.saturating_sub(self.start.len()).min(chunk.len());
        self.start.extend_from_slice(&chunk[..missing]);
        let mut rest = chunk;
        // At most three bytes are needed to end a character that the chunk before began.
        while !self.partial.is_empty() && !rest.is_empty() {
            self.partial.push(rest[0]);
            rest = &rest[1..];
            let partial = std::mem::take(&mut self.partial);
            match std::str::from_utf8(&partial) {
                Ok(text) => self.text(text),
                Err(error) if error.error_len().is_none() => self.partial = partial,
                Err(_) => return Err(self.not_utf8(0)),
            }
        }
        match std::str::from_utf8(rest) {
            Ok(text) => self.text(text),
            Err(error) => {
                let (valid, wrong) = rest.split_at(error.valid_up_to());
                // `valid` was just found to be valid.
                self.text(std::str::from_utf8(valid).unwrap_or_default());
                if error.error_len().is_some() {
                    return Err(self.not_utf8(0));
                }
                self.partial = wrong.to_vec();
            }
        }
        Ok(())
    }

    fn not_utf8(&self, after: u64) -> NotUtf8 {
        let at = |index: usize| self.start.get(index).copied().unwrap_or_default();
        NotUtf8 { offset: self.bytes + after, line: self.line, start: [at(0), at(1)], binary: self.has_nul }
    }

    fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return;
        }
        self.has_nul = self.has_nul || self.bytes < 8_192 && memchr(0, bytes).is_some();
        self.count_crlf(bytes);
        let mut rest = text;
        if self.bytes == 0 {
            rest = rest.strip_prefix('\u{feff}').unwrap_or(rest);
        }
        self.bytes += bytes.len() as u64;
        self.last_byte = bytes.last().copied();
        while !self.page.is_closed(self.line) {
            let Some(end) = memchr(b'\n', rest.as_bytes()) else {
                if self.page.wants(self.line) {
                    self.page.take(rest);
                }
                return;
            };
            if self.page.wants(self.line) {
                self.page.take(&rest[..end]);
                self.page.end_line(self.line);
            }
            self.newlines += 1;
            self.line += 1;
            rest = &rest[end + 1..];
        }
        let newlines = memchr_iter(b'\n', rest.as_bytes()).count() as u64;
        self.newlines += newlines;
        self.line += newlines;
    }

    fn count_crlf(&mut self, bytes: &[u8]) {
        if self.last_byte == Some(b'\r') && bytes[0] == b'\n' {
            self.crlf += 1;
        }
        self.crlf += memchr_iter(b'\r', bytes).filter(|at| bytes.get(at + 1) == Some(&b'\n')).count() as u64;
    }

    pub(super) fn finish(mut self) -> Result<Scanned, NotUtf8> {
        if !self.partial.is_empty() {
            return Err(self.not_utf8(0));
        }
        let ends_with_newline = self.last_byte == Some(b'\n');
        let has_last_line = self.bytes > 0 && !ends_with_newline;
        if has_last_line && self.page.wants(self.line) {
            self.page.end_line(self.line);
        }
        Ok(Scanned {
            digest: self.hasher.finish(),
            bytes: self.bytes,
            lines: self.newlines + u64::from(has_last_line),
            page: self.page,
            crlf: self.crlf,
            lf: self.newlines - self.crlf,
            ends_with_newline,
            has_mark: self.start == [0xef, 0xbb, 0xbf],
        })
    }
}
