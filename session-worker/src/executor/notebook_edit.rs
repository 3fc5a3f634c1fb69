//! `NotebookEdit`: replaces, inserts or deletes one cell of a notebook by splicing its JSON text.
//!
//! A pure function from bytes to bytes. The notebook is never parsed and written again: only the touched
//! cell's own span changes, so indent, key order, escapes, the final newline and all other cells with their
//! outputs keep every byte (X5). Nothing is executed.
//!
//! Format 4 of every minor version is edited. Format 3 is refused: it keeps its cells in worksheets and has
//! no ids to name them by.
//!
//! Invariant: a cell is found by its id alone, and only if exactly one cell has it.
//! Invariant: an inserted cell has an id where, and only where, the notebook's version knows ids.

mod change_cell;
mod failure;
mod json;
mod layout;
mod notebook;
mod source;
#[cfg(test)]
mod tests;

use protocol::tool::{CellType, EditMode, NotebookEdit};
use sha2::{Digest, Sha256};

use super::edit::MAX_TEXT_BYTES;
pub(crate) use failure::{CellList, NotebookError};
use json::Span;
use layout::Layout;
use notebook::{Cell, Notebook};

/// The kind's name in the notebook format.
const fn kind_name(kind: CellType) -> &'static str {
    match kind {
        CellType::Code => "code",
        CellType::Markdown => "markdown",
        CellType::Raw => "raw",
    }
}

/// One change of a notebook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellChange<'a> {
    /// A new source, a new kind, or both; a code cell loses its outputs and its execution count.
    Replace {
        /// The cell.
        cell_id: &'a str,
        /// `None` keeps the source.
        source: Option<&'a str>,
        /// `None` keeps the kind.
        kind: Option<CellType>,
    },
    /// A new cell.
    Insert {
        /// The cell before it; `None` inserts at the top.
        after: Option<&'a str>,
        /// Its source.
        source: &'a str,
        /// Its kind.
        kind: CellType,
    },
    /// The cell is taken out.
    Delete {
        /// The cell.
        cell_id: &'a str,
    },
}

impl<'a> CellChange<'a> {
    /// The change that a call asks for. A cell that is inserted without a kind is a code cell, as in a new notebook.
    ///
    /// # Errors
    /// [`NotebookError::Missing`]: a field that the mode needs is not there.
    pub(crate) fn asked_by(input: &'a NotebookEdit) -> Result<Self, NotebookError> {
        let mode = input.edit_mode;
        let missing = |field| NotebookError::Missing { field, mode };
        let cell_id = || input.cell_id.as_deref().ok_or(missing("cell_id"));
        let source = input.new_source.as_deref();
        Ok(match mode {
            EditMode::Replace => Self::Replace { cell_id: cell_id()?, source, kind: input.cell_type },
            EditMode::Insert => Self::Insert {
                after: input.cell_id.as_deref(),
                source: source.ok_or(missing("new_source"))?,
                kind: input.cell_type.unwrap_or(CellType::Code),
            },
            EditMode::Delete => Self::Delete { cell_id: cell_id()? },
        })
    }
}

/// A changed notebook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotebookEdited {
    /// The whole new text.
    pub(crate) content: Vec<u8>,
    /// The touched cell's place, from 0; for a deleted cell the place that it had.
    pub(crate) index: usize,
    /// Its id; `None` for a cell inserted into a notebook whose version has no ids.
    pub(crate) cell_id: Option<String>,
}

/// Makes one change in the notebook `before`.
///
/// # Errors
/// [`NotebookError`]: no notebook of format 4, no such cell or several (with the list of cells), or nothing
/// would change.
pub(crate) fn notebook_edit(before: &[u8], change: CellChange<'_>) -> Result<NotebookEdited, NotebookError> {
    if before.len() > MAX_TEXT_BYTES {
        return Err(NotebookError::TooLarge { bytes: before.len() });
    }
    let text = std::str::from_utf8(before).map_err(|e| NotebookError::NotUtf8 { offset: e.valid_up_to() })?;
    let notebook = Notebook::read(text)?;
    let splice = match change {
        CellChange::Replace { cell_id, source, kind } => {
            if source.is_none() && kind.is_none() {
                return Err(NotebookError::NothingAsked);
            }
            let (index, cell) = find(&notebook, cell_id)?;
            let put = change_cell::changed(&notebook, cell, (source, kind))?;
            Splice { at: cell.span, put, index, cell_id: Some(cell_id.to_owned()) }
        }
        CellChange::Insert { after, source, kind } => insert(&notebook, after, (kind, source))?,
        CellChange::Delete { cell_id } => delete(&notebook, cell_id)?,
    };
    splice.apply(text)
}

/// New text in the place of one span.
struct Splice {
    at: Span,
    put: String,
    index: usize,
    cell_id: Option<String>,
}

impl Splice {
    fn apply(self, text: &str) -> Result<NotebookEdited, NotebookError> {
        let Span { start, end } = self.at;
        let bytes = text.len() - (end - start) + self.put.len();
        if bytes > MAX_TEXT_BYTES {
            return Err(NotebookError::TooLarge { bytes });
        }
        if text[start..end] == self.put {
            return Err(NotebookError::Unchanged);
        }
        let content = [&text[..start], &self.put, &text[end..]].concat().into_bytes();
        Ok(NotebookEdited { content, index: self.index, cell_id: self.cell_id })
    }
}

/// The one cell with that id.
fn find<'n>(notebook: &'n Notebook<'_>, id: &str) -> Result<(usize, &'n Cell), NotebookError> {
    let mut found = notebook.cells.iter().enumerate().filter(|(_, cell)| cell.id.as_deref() == Some(id));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(NotebookError::CellNotFound { id: id.to_owned(), cells: CellList::of(notebook) }),
        (Some(_), Some(_)) => {
            Err(NotebookError::DuplicateId { id: id.to_owned(), cells: CellList::of(notebook) })
        }
    }
}

fn insert(
    notebook: &Notebook<'_>,
    after: Option<&str>,
    (kind, source): (CellType, &str),
) -> Result<Splice, NotebookError> {
    let index = match after {
        Some(id) => find(notebook, id)?.0 + 1,
        None => 0,
    };
    let near = notebook.cells.get(index.saturating_sub(1));
    let layout = Layout::of(notebook, near);
    let id = notebook.with_ids.then(|| fresh_id(notebook, index, source));
    let cell = change_cell::fresh(notebook, (near, &layout), (kind, source), id.as_deref());
    let (at, put) = match notebook.cells.as_slice() {
        [] => (notebook.array, format!("[{}{cell}{}]", layout.cell_break, layout.array_break)),
        [first, rest @ ..] => {
            let separator = match rest.first() {
                Some(second) => notebook.text[first.span.end..second.span.start].to_owned(),
                None => layout.separator(&notebook.text[notebook.array.start + 1..first.span.start]),
            };
            match index.checked_sub(1).and_then(|before| notebook.cells.get(before)) {
                None => (Span { end: first.span.start, ..first.span }, format!("{cell}{separator}")),
                Some(before) => {
                    (Span { start: before.span.end, ..before.span }, format!("{separator}{cell}"))
                }
            }
        }
    };
    Ok(Splice { at, put, index, cell_id: id })
}

fn delete(notebook: &Notebook<'_>, cell_id: &str) -> Result<Splice, NotebookError> {
    let (index, cell) = find(notebook, cell_id)?;
    let next = notebook.cells.get(index + 1);
    let previous = index.checked_sub(1).and_then(|before| notebook.cells.get(before));
    let (at, put) = match (previous, next) {
        (None, None) => (notebook.array, "[]"),
        (_, Some(next)) => (Span { start: cell.span.start, end: next.span.start }, ""),
        (Some(previous), None) => (Span { start: previous.span.end, end: cell.span.end }, ""),
    };
    Ok(Splice { at, put: put.to_owned(), index, cell_id: Some(cell_id.to_owned()) })
}

/// An id that no cell has: eight hexadecimal digits, as Jupyter makes them, but drawn from the change
/// itself, so that the same change of the same notebook always has the same result.
fn fresh_id(notebook: &Notebook<'_>, index: usize, source: &str) -> String {
    let mut seed = Sha256::new();
    seed.update(notebook.text);
    seed.update(index.to_le_bytes());
    seed.update(source);
    let mut digest = seed.finalize();
    loop {
        let id: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        if notebook.cells.iter().all(|cell| cell.id.as_deref() != Some(id.as_str())) {
            return id;
        }
        digest = Sha256::digest(digest);
    }
}
