//! How hits are written: `path:line:column:text`, with `path-line-text` for the lines around them.

use std::{collections::BTreeMap, fmt::Write, path::Path};

use crate::executor::display;

/// A hit with the lines around it; its line is counted from 1 in the whole file.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) text: String,
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
}

/// The body of a result, within its room.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) text: String,
    /// Hits that it shows.
    pub(super) shown: u64,
    pub(super) is_full: bool,
    limit: u64,
    room: usize,
}

enum Row<'a> {
    Hit(u64, &'a str),
    Around(&'a str),
}

impl Body {
    pub(super) const fn new(limit: u64, room: usize) -> Self {
        Body { text: String::new(), shown: 0, is_full: false, limit, room }
    }

    /// Writes the hits of one file, as many as fit.
    pub(super) fn file(&mut self, path: &Path, hits: &[Shown]) {
        let left = usize::try_from(self.limit - self.shown).unwrap_or(usize::MAX);
        self.is_full = self.is_full || hits.len() > left;
        let hits = &hits[..hits.len().min(left)];
        let with_context = hits.iter().any(|hit| !hit.before.is_empty() || !hit.after.is_empty());
        let path = display::path(path);
        let mut last = None;
        for (line, row) in rows(hits) {
            let mut text = String::new();
            if with_context && (last.is_some_and(|last| last + 1 < line) || last.is_none() && self.shown > 0)
            {
                text.push_str("--\n");
            }
            last = Some(line);
            // Writing into a String does not fail.
            let shown = match row {
                Row::Hit(column, shown) => {
                    let _ = write!(text, "{path}:{line}:{column}:");
                    shown
                }
                Row::Around(shown) => {
                    let _ = write!(text, "{path}-{line}-");
                    shown
                }
            };
            display::push_visible(&mut text, shown);
            text.push('\n');
            if self.text.len() + text.len() > self.room {
                self.is_full = true;
                return;
            }
            self.text.push_str(&text);
            self.shown += u64::from(matches!(row, Row::Hit(..)));
        }
    }
}

/// The lines of a file in order, each once; a hit's own line is shown as a hit also where it is near another.
fn rows(hits: &[Shown]) -> BTreeMap<u64, Row<'_>> {
    let mut rows = BTreeMap::new();
    for hit in hits {
        let first = hit.line - hit.before.len() as u64;
        for (line, text) in (first..).zip(&hit.before).chain((hit.line + 1..).zip(&hit.after)) {
            rows.entry(line).or_insert(Row::Around(text));
        }
    }
    rows.extend(hits.iter().map(|hit| (hit.line, Row::Hit(hit.column, &hit.text))));
    rows
}
