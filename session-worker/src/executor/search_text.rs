//! `SearchText`: the lines that hold a literal text, below a path, in the order of the paths (X3).
//!
//! Invariant: with early stop or without, the lines shown are the first of all there are.

mod context;
mod needle;
mod piece;
mod render;
#[cfg(test)]
mod tests;
mod visit;

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use protocol::{limits::RECEIPT_BYTES, receipt::Facts, tool::SearchText};

use super::{
    display,
    outcome::{ToolFailure, ToolOutcome},
    paths::{self, Opened, Wanted},
    tools::Surroundings,
    walk::{
        self, Ignoring, Key, Plan, Tally,
        filter::NameFilter,
        shelf::{Amount, Enough, Shelf},
    },
};
use needle::Needle;
use piece::Extent;
use render::{Body, Shown};
use visit::{Counts, PieceFound, SearchedFile, Searcher};

/// Hits shown where no limit is asked for.
const LIMIT: u64 = 200;

/// Room for what is said beside the hits.
const REMARKS: usize = 1_536;

/// Searches a file or what lies below a directory.
///
/// # Errors
/// The path can't be opened, the glob is none, or the text is too long.
pub(crate) fn search_text(input: &SearchText, around: &Surroundings) -> Result<ToolOutcome, ToolFailure> {
    let asked = around.place(input.path.as_deref());
    let needle = Needle::of(&input.query, input.ignore_case)?;
    let filter = NameFilter::of(input.glob.as_deref())?;
    let opened = paths::open(asked, Wanted::FileOrDirectory, &around.protected)?;
    let root = opened.path.clone();
    let limit = input.limit.unwrap_or(LIMIT);
    let counts_all = input.count_all == Some(true);
    let wanted = Amount { count: limit + 1, bytes: RECEIPT_BYTES as u64 };
    let searcher = Searcher {
        needle,
        filter,
        context: input.context.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(0),
        extent: Extent {
            most_hits: usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1),
            most_bytes: RECEIPT_BYTES,
            counts_all,
        },
        protected: &around.protected,
        stop: &around.stop,
        shelf: Shelf::new(wanted, if counts_all { Enough::GoesOn } else { Enough::Ends }),
        counts: Counts::default(),
    };
    let tally = go(opened, input, around, &searcher);
    let is_whole = !searcher.shelf.bound().is_set() && !around.stop.is_raised();
    let Searcher { shelf, counts, .. } = searcher;
    let mut body = Body::new(limit, RECEIPT_BYTES - REMARKS - 2 * root.as_os_str().len().min(REMARKS));
    for (path, hits) in by_file(shelf.into_found()) {
        if body.is_full {
            break;
        }
        body.file(&path, &hits);
    }
    let summary = Summary { query: &input.query, root: &root, counts: &counts, tally: &tally, is_whole };
    let mut text = summary.text(&body);
    text.push_str(&body.text);
    Ok(ToolOutcome::done(text, Facts::None))
}

fn go(opened: Opened, input: &SearchText, around: &Surroundings, searcher: &Searcher<'_>) -> Tally {
    let plan = Plan {
        protected: &around.protected,
        stop: &around.stop,
        bound: searcher.shelf.bound(),
        max_depth: u64::MAX,
        ignoring: Ignoring::from(input.respect_gitignore),
    };
    if opened.metadata.is_dir() {
        return walk::below(opened, &plan, searcher);
    }
    let Opened { file, path, metadata } = opened;
    let name = path.file_name().unwrap_or_default();
    if !searcher.filter.takes_path(Path::new(""), name) {
        return Tally::default();
    }
    let pieces = searcher.pieces_of(SearchedFile::new(file, path), &Key::default(), metadata.len());
    walk::over(pieces, &plan, searcher)
}

/// Joins the pieces of each file; lines are counted on over them.
fn by_file(found: impl Iterator<Item = (Key, PieceFound)>) -> Vec<(PathBuf, Vec<Shown>)> {
    let mut files: Vec<(PathBuf, Vec<Shown>)> = Vec::new();
    let mut lines_before = 0;
    for (_, piece) in found {
        if piece.number == 0 {
            lines_before = 0;
            files.push((piece.path.to_path_buf(), Vec::new()));
        }
        let Some((_, hits)) = files.last_mut() else { continue };
        hits.extend(piece.hits.into_iter().map(|mut hit| {
            hit.line += lines_before + 1;
            hit
        }));
        lines_before += piece.lines;
    }
    files
}

/// What is said above the hits.
struct Summary<'a> {
    query: &'a str,
    root: &'a Path,
    counts: &'a Counts,
    tally: &'a Tally,
    /// Whether everything was searched.
    is_whole: bool,
}

impl Summary<'_> {
    fn text(&self, body: &Body) -> String {
        let mut query = String::new();
        display::push_visible(&mut query, display::start(self.query, 200));
        let root = display::path(self.root);
        let root = display::start(&root, REMARKS);
        let (lines, files) = (self.counts.lines(), self.counts.files());
        let mut text = String::new();
        if lines == 0 && self.is_whole {
            let searched = self.counts.searched();
            let _ = writeln!(text, "no line holds \"{query}\": {searched} files searched in {root}");
        } else if self.is_whole {
            let _ = writeln!(text, "{lines} lines in {files} files hold \"{query}\" in {root}");
        } else {
            let _ = writeln!(text, "the first {} lines that hold \"{query}\" in {root}", body.shown);
        }
        const FURTHER: &str = "search further down, with a glob, or for a longer text";
        if !self.is_whole {
            let _ = writeln!(text, "[there are more: {FURTHER}; count_all counts them]");
        } else if lines > body.shown + self.counts.not_utf8() {
            let _ = writeln!(text, "[the first {} are shown: {FURTHER}]", body.shown);
        }
        if self.is_whole {
            self.left_out(&mut text);
        }
        text.push('\n');
        text
    }

    fn left_out(&self, text: &mut String) {
        for (count, what) in [
            (self.counts.not_utf8(), "lines with it are not shown because they are not UTF-8"),
            (self.counts.binary(), "binary files were left out"),
            (
                self.counts.unreadable() + self.tally.unreadable(),
                "files or directories could not be read: the operating system denied it",
            ),
            (self.tally.protected(), "protected entries were left out"),
        ] {
            if count > 0 {
                let _ = writeln!(text, "[{count} {what}]");
            }
        }
    }
}
