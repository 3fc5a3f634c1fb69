//! The lines that a read shows.
//!
//! Invariant: the page's text is within its room, and each of its lines is whole or says what was cut from it.

use std::fmt::Write;

use crate::executor::display;

/// Most bytes of one line that stands behind another: three of them fit a page.
const LINE_BYTES: usize = 20 * 1024;

/// The line that is coming in.
#[derive(Debug, Default)]
struct Coming {
    /// What is kept of it, at most the page's room.
    kept: String,
    /// All bytes of it.
    bytes: usize,
}

/// A page: lines from `offset` on, as many as were asked for and fit.
#[derive(Debug)]
pub(super) struct Page {
    offset: u64,
    last_wanted: u64,
    room: usize,
    text: String,
    shown: u64,
    coming: Coming,
    full: bool,
    /// Control characters shown as pictures.
    pub(super) pictures: u64,
}

impl Page {
    pub(super) fn new(offset: u64, limit: u64, room: usize) -> Self {
        Page {
            offset,
            last_wanted: offset.saturating_add(limit - 1),
            room,
            text: String::new(),
            shown: 0,
            coming: Coming::default(),
            full: false,
            pictures: 0,
        }
    }

    /// Whether it takes a piece of this line (counted from 1).
    pub(super) const fn wants(&self, line: u64) -> bool {
        !self.full && line >= self.offset && line <= self.last_wanted
    }

    /// Whether no later line can change it.
    pub(super) const fn is_closed(&self, line: u64) -> bool {
        self.full || line > self.last_wanted
    }

    /// Takes a piece of the line that is coming in.
    pub(super) fn take(&mut self, piece: &str) {
        let free = self.room.saturating_sub(self.coming.kept.len());
        self.coming.kept.push_str(display::start(piece, free));
        self.coming.bytes += piece.len();
    }

    /// The line that came in is at its end.
    pub(super) fn end_line(&mut self, line: u64) {
        let coming = std::mem::take(&mut self.coming);
        let mut kept = coming.kept.as_str();
        let mut bytes = coming.bytes;
        if let Some(stripped) = kept.strip_suffix('\r').filter(|_| kept.len() == bytes) {
            kept = stripped;
            bytes -= 1;
        }
        let left = self.room.saturating_sub(self.text.len());
        // The first line takes all the room there is, so that a file of one line is shown as far as it goes.
        let most = if self.shown == 0 { left.saturating_sub(200) } else { LINE_BYTES };
        let mut shown = format!("{line}\t");
        let start = shown.len();
        let mut pictures = display::push_visible(&mut shown, kept);
        if kept.len() < bytes || shown.len() - start > most {
            // A picture takes three bytes where its character takes one.
            let grows = if shown.len() - start > kept.len() { 3 } else { 1 };
            let cut = display::start(kept, most / grows);
            shown.truncate(start);
            pictures = display::push_visible(&mut shown, cut);
            let _ = write!(shown, " [cut: {} more bytes of this line]", bytes - cut.len());
        }
        shown.push('\n');
        if shown.len() > left {
            self.full = true;
            return;
        }
        self.pictures += pictures;
        self.text.push_str(&shown);
        self.shown += 1;
    }

    /// First and last line shown.
    pub(super) const fn shown(&self) -> Option<(u64, u64)> {
        if self.shown == 0 { None } else { Some((self.offset, self.offset + self.shown - 1)) }
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}
