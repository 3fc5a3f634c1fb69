//! Text for people: aligned lines and tables, in colour where that is wanted.
//!
//! Invariant: a cell's own control characters never reach the terminal, which would obey them.

use std::fmt::Write as _;

/// What a piece of text means; its colour follows from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// A name or a heading.
    Name,
    /// As it should be.
    Good,
    /// Worth a look.
    Care,
    /// Wrong.
    Bad,
}

impl Tone {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Name => Some("1"),
            Self::Good => Some("32"),
            Self::Care => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

/// A piece of text in one tone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: printable(&text.into()), tone }
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn write(&self, out: &mut String, colour: bool) {
        match self.tone.code().filter(|_| colour && !self.text.is_empty()) {
            // Writing to a String can't fail.
            Some(code) => drop(write!(out, "\u{1b}[{code}m{}\u{1b}[0m", self.text)),
            None => out.push_str(&self.text),
        }
    }
}

/// Lines of cells. Neighbouring lines share their columns; an empty line starts anew.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    rows: Vec<Vec<Cell>>,
}

impl Page {
    /// Adds a line.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a name and what it is.
    pub(super) fn pair(&mut self, name: &str, value: impl Into<String>) {
        self.row([Cell::new(name, Tone::Name), Cell::plain(value)]);
    }

    /// Adds an empty line.
    pub(super) fn gap(&mut self) {
        self.rows.push(Vec::new());
    }

    /// The page as text.
    pub(super) fn render(&self, colour: bool) -> String {
        let mut out = String::new();
        for (index, block) in self.rows.split(Vec::is_empty).enumerate() {
            if index > 0 {
                out.push('\n');
            }
            render_block(block, colour, &mut out);
        }
        out
    }
}

fn render_block(rows: &[Vec<Cell>], colour: bool, out: &mut String) {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        // The last cell of a line may be as long as it likes without widening its column.
        for (column, cell) in row.iter().enumerate().take(row.len().saturating_sub(1)) {
            if column == widths.len() {
                widths.push(0);
            }
            widths[column] = widths[column].max(cell.width());
        }
    }
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            cell.write(out, colour);
            if column + 1 < row.len() {
                out.push_str(&" ".repeat(widths[column] - cell.width() + 2));
            }
        }
        out.push('\n');
    }
}

/// The text with every control character but the line break shown as a replacement character.
pub(super) fn printable(text: &str) -> String {
    // Bidirectional overrides are no control characters to `char`, and turn a line's meaning around all the same.
    let unsafe_to_show = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if unsafe_to_show(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_nothing_is_left_at_a_lines_end() {
        let mut page = Page::default();
        page.row([Cell::new("ID", Tone::Name), Cell::new("STATUS", Tone::Name)]);
        page.row([Cell::plain("é2345"), Cell::new("idle", Tone::Good)]);
        page.gap();
        page.pair("a", "b");
        assert_eq!(page.render(false), "ID     STATUS\né2345  idle\n\na  b\n");
        assert!(page.render(true).contains("\u{1b}[32midle\u{1b}[0m"));
    }

    #[test]
    fn what_a_client_wrote_does_not_steer_the_terminal() {
        let mut page = Page::default();
        page.pair("label", "\u{1b}[2Jgone\u{202e}\r\u{9b}1m");
        let text = page.render(true);
        assert!(
            !text.contains("\u{1b}[2J") && !text.contains('\u{202e}') && !text.contains('\u{9b}'),
            "{text:?}"
        );
    }
}
