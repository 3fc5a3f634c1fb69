//! A notebook's cells, by where they stand in its JSON text.

use super::NotebookError;
use super::json::{self, Broken, Member, Span};

/// The notebook format that is edited; format 3 keeps its cells in worksheets and has no ids.
const FORMAT: u64 = 4;
/// The first minor version of format 4 whose cells have ids.
const FIRST_MINOR_WITH_IDS: u64 = 5;

/// A notebook's text and where its cells are.
pub(super) struct Notebook<'a> {
    pub(super) text: &'a str,
    /// The members of the whole notebook.
    pub(super) root: Span,
    pub(super) root_members: Vec<Member>,
    /// The array of cells.
    pub(super) array: Span,
    pub(super) cells: Vec<Cell>,
    /// Whether this version of the format gives each cell an id.
    pub(super) with_ids: bool,
}

/// One cell.
pub(super) struct Cell {
    pub(super) span: Span,
    /// At least one.
    pub(super) members: Vec<Member>,
    pub(super) id: Option<String>,
    /// `code`, `markdown`, `raw`, or whatever else the notebook says.
    pub(super) kind: String,
}

impl Cell {
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

impl<'a> Notebook<'a> {
    /// Finds the cells of the notebook in `text`.
    pub(super) fn read(text: &'a str) -> Result<Self, NotebookError> {
        let broken = |broken: Broken| not_json(text, broken);
        let root = json::document(text).map_err(broken)?;
        let root_members =
            json::members(text, root).map_err(broken)?.ok_or(invalid("it is not a JSON object"))?;
        let with_ids = read_format(text, &root_members)?;
        let array = only(&root_members, "cells")?
            .ok_or(invalid("it has no list of cells, which format 4 demands"))?
            .value;
        let spans = json::items(text, array).map_err(broken)?.ok_or(invalid("its cells are not a list"))?;
        let cells = spans.into_iter().map(|span| read_cell(text, span)).collect::<Result<_, _>>()?;
        Ok(Self { text, root, root_members, array, cells, with_ids })
    }
}

fn read_format(text: &str, root: &[Member]) -> Result<bool, NotebookError> {
    let number = |name: &'static str| -> Result<Option<u64>, NotebookError> {
        let Some(member) = only(root, name)? else { return Ok(None) };
        let value =
            member.value.of(text).parse().map_err(|_| invalid("its nbformat is not a whole number"))?;
        Ok(Some(value))
    };
    let major = number("nbformat")?.ok_or(invalid("it names no nbformat"))?;
    // The schema demands a minor version; a notebook without one is as old as can be.
    let minor = number("nbformat_minor")?.unwrap_or(0);
    if major != FORMAT {
        return Err(NotebookError::UnsupportedFormat { major });
    }
    Ok(minor >= FIRST_MINOR_WITH_IDS)
}

fn read_cell(text: &str, span: Span) -> Result<Cell, NotebookError> {
    let members = json::members(text, span).map_err(|broken| not_json(text, broken))?;
    let members = members.ok_or(invalid("one of its cells is not an object"))?;
    for name in ["outputs", "execution_count", "source", "attachments", "metadata"] {
        only(&members, name)?;
    }
    let kind = only(&members, "cell_type")?.and_then(|member| json::string(text, member.value));
    let kind = kind.ok_or(invalid("one of its cells has no cell_type"))?;
    let id = only(&members, "id")?.and_then(|member| json::string(text, member.value));
    Ok(Cell { span, members, id, kind })
}

/// The one member of that name; readers differ in which of two they take, so two are refused.
fn only<'m>(members: &'m [Member], name: &'static str) -> Result<Option<&'m Member>, NotebookError> {
    let mut found = members.iter().filter(|member| member.name == name);
    let first = found.next();
    match found.next() {
        None => Ok(first),
        Some(_) => Err(NotebookError::DuplicateKey { key: name }),
    }
}

pub(super) fn invalid(why: &'static str) -> NotebookError {
    NotebookError::NotANotebook { why }
}

pub(super) fn not_json(text: &str, broken: Broken) -> NotebookError {
    let before = &text.as_bytes()[..broken.offset.min(text.len())];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    NotebookError::NotJson {
        line: 1 + memchr::memchr_iter(b'\n', before).count(),
        column: 1 + broken.offset - line_start,
        expected: broken.expected,
    }
}
