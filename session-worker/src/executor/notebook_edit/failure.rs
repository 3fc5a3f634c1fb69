//! Why a notebook was not changed.

use std::fmt;

use protocol::{failure::ToolErrorCode, tool::EditMode};

use super::MAX_TEXT_BYTES;
use super::json;
use super::notebook::{Cell, Notebook};

/// How many cells a list shows.
const MAX_CELLS: usize = 60;
/// How much of a cell's first line and of its id is shown, in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// Why a notebook was not changed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotebookError {
    /// The file is not UTF-8; `offset` is the first byte that is not.
    NotUtf8 { offset: usize },
    /// The notebook is too large, before or after.
    TooLarge { bytes: usize },
    /// The file is not JSON.
    NotJson {
        /// From 1.
        line: usize,
        /// In bytes, from 1.
        column: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// The file is JSON, but no notebook.
    NotANotebook { why: &'static str },
    /// The notebook has another major format than 4.
    UnsupportedFormat { major: u64 },
    /// An object has the same key twice.
    DuplicateKey { key: &'static str },
    /// No cell has this id.
    CellNotFound { id: String, cells: CellList },
    /// Several cells have this id.
    DuplicateId { id: String, cells: CellList },
    /// A field that the mode needs is not given.
    Missing { field: &'static str, mode: EditMode },
    /// A replacement with neither a source nor a kind.
    NothingAsked,
    /// The cell already is as asked.
    Unchanged,
}

/// The cells of a notebook, for a person or a brain that has to choose one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellList {
    lines: Vec<String>,
    total: usize,
}

impl CellList {
    pub(super) fn of(notebook: &Notebook<'_>) -> Self {
        let describe = |(index, cell): (usize, &Cell)| {
            let id = cell.id.as_deref().map_or("no id".to_owned(), |id| format!("id `{}`", shortened(id)));
            format!(
                "{index}: {}, {id}, `{}`",
                shortened(&cell.kind),
                shortened(&first_line(notebook.text, cell))
            )
        };
        Self {
            lines: notebook.cells.iter().take(MAX_CELLS).enumerate().map(describe).collect(),
            total: notebook.cells.len(),
        }
    }
}

fn first_line(text: &str, cell: &Cell) -> String {
    let Some(member) = cell.member("source") else { return String::new() };
    let first = json::items(text, member.value).ok().flatten().and_then(|items| items.first().copied());
    let source = json::string(text, first.unwrap_or(member.value)).unwrap_or_default();
    source.lines().next().unwrap_or_default().to_owned()
}

fn shortened(text: &str) -> String {
    let mut short: String =
        text.chars().take(MAX_SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() {
        short.push('…');
    }
    short
}

impl NotebookError {
    /// The stable code that the tool's result carries.
    pub(crate) fn code(&self) -> ToolErrorCode {
        match self {
            Self::NotUtf8 { .. } => ToolErrorCode::NotUtf8,
            Self::TooLarge { .. } => ToolErrorCode::TooLarge,
            Self::CellNotFound { .. } => ToolErrorCode::NoMatch,
            Self::DuplicateId { .. } => ToolErrorCode::AmbiguousMatch,
            Self::Missing { .. } | Self::NothingAsked => ToolErrorCode::InvalidArgument,
            Self::NotJson { .. }
            | Self::NotANotebook { .. }
            | Self::UnsupportedFormat { .. }
            | Self::DuplicateKey { .. }
            | Self::Unchanged => ToolErrorCode::NotApplied,
        }
    }
}

impl fmt::Display for CellList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total == 0 {
            return f.write_str("the notebook has no cells");
        }
        write!(f, "the notebook has these cells:")?;
        for line in &self.lines {
            write!(f, "\n  {line}")?;
        }
        match self.total - self.lines.len() {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl fmt::Display for NotebookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 { offset } => write!(
                f,
                "the notebook is not UTF-8 text: byte {offset} (from 0) begins no character; it was left as it is"
            ),
            Self::TooLarge { bytes } => write!(
                f,
                "the notebook has {bytes} bytes and at most {MAX_TEXT_BYTES} are edited; clear its outputs first"
            ),
            Self::NotJson { line, column, expected } => write!(
                f,
                "the notebook is not JSON: line {line}, column {column} should have {expected}; \
                 repair it with Edit first"
            ),
            Self::NotANotebook { why } => write!(f, "the file is not a notebook that can be edited: {why}"),
            Self::UnsupportedFormat { major } => write!(
                f,
                "the notebook has nbformat {major} and only 4 is edited, whose cells can be named by id; \
                 convert a copy with `jupyter nbconvert --to notebook`, or use Edit on its text"
            ),
            Self::DuplicateKey { key } => write!(
                f,
                "the notebook has the key `{key}` twice in one object, and readers differ in which one counts; \
                 repair it with Edit first"
            ),
            Self::CellNotFound { id, cells } => write!(
                f,
                "no cell has the id `{}`; {cells}\na cell without an id can be changed with Edit on the file's text",
                shortened(id)
            ),
            Self::DuplicateId { id, cells } => write!(
                f,
                "several cells have the id `{}`, so none was changed; {cells}\nmake the ids differ with Edit first",
                shortened(id)
            ),
            Self::Missing { field, mode } => {
                let mode = match mode {
                    EditMode::Replace => "replace",
                    EditMode::Insert => "insert",
                    EditMode::Delete => "delete",
                };
                write!(f, "edit_mode `{mode}` needs {field}, which was not given; call again with it")
            }
            Self::NothingAsked => f.write_str(
                "replacing a cell needs new_source, cell_type or both; give what the cell is to become",
            ),
            Self::Unchanged => f.write_str("the change changes nothing: the cell already is as asked"),
        }
    }
}

impl std::error::Error for NotebookError {}
