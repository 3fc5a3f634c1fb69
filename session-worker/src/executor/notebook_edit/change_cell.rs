//! The text of a changed cell and of a new one.
//!
//! Invariant: a changed cell keeps the bytes of each member that the change does not name.

use super::json::{Member, Span};
use super::layout::Layout;
use super::notebook::{Cell, Notebook};
use super::source::{self, Form};
use super::{CellType, NotebookError, kind_name};

/// The members of a new cell in the order in which Jupyter writes them: by name.
const USUAL_ORDER: [&str; 6] = ["cell_type", "execution_count", "id", "metadata", "outputs", "source"];

/// The text of `cell` with a new source, a new kind, or both.
pub(super) fn changed(
    notebook: &Notebook<'_>,
    cell: &Cell,
    (new_source, new_kind): (Option<&str>, Option<CellType>),
) -> Result<String, NotebookError> {
    let layout = Layout::of(notebook, Some(cell));
    let mut draft = Draft::of(notebook.text, cell);
    if let Some(kind) = new_kind
        && kind_name(kind) != cell.kind
    {
        draft.set("cell_type", layout.string(kind_name(kind)), &layout);
    }
    if let Some(new_source) = new_source {
        let value = match cell.member("source") {
            Some(member) => source::replace(notebook.text, member.value, (&layout, new_source))?,
            None => source::render(&layout, Form::Lines, new_source),
        };
        draft.set("source", value, &layout);
    }
    let is_code = match new_kind {
        Some(kind) => kind == CellType::Code,
        None => cell.kind == kind_name(CellType::Code),
    };
    if is_code {
        // What the old source printed says nothing about the new one.
        draft.set("execution_count", "null".to_owned(), &layout);
        draft.set("outputs", "[]".to_owned(), &layout);
        draft.remove("attachments");
    } else {
        draft.remove("execution_count");
        draft.remove("outputs");
    }
    Ok(draft.finish())
}

/// The text of a new cell, written like the cell `near` it.
pub(super) fn fresh(
    notebook: &Notebook<'_>,
    (near, layout): (Option<&Cell>, &Layout),
    (kind, source): (CellType, &str),
    id: Option<&str>,
) -> String {
    let form = near
        .and_then(|cell| cell.member("source"))
        .map_or(Form::Lines, |member| source::form_of(notebook.text, member.value));
    let mut members = vec![
        ("cell_type", layout.string(kind_name(kind))),
        ("metadata", "{}".to_owned()),
        ("source", source::render(layout, form, source)),
    ];
    if kind == CellType::Code {
        members.push(("execution_count", "null".to_owned()));
        members.push(("outputs", "[]".to_owned()));
    }
    if let Some(id) = id {
        members.push(("id", layout.string(id)));
    }
    let like = notebook.cells.iter().find(|cell| cell.kind == kind_name(kind)).or(near);
    members.sort_by_key(|(name, _)| place_of(name, like));
    let written: Vec<String> =
        members.iter().map(|(name, value)| format!("\"{name}\"{}{value}", layout.colon)).collect();
    let separator = layout.separator(&layout.member_break);
    format!("{{{}{}{}}}", layout.member_break, written.join(&separator), layout.cell_break)
}

/// Where a member of that name goes in a new cell: as in the cell that it is like, else by name.
fn place_of(name: &str, like: Option<&Cell>) -> (usize, usize) {
    let known = match like {
        Some(cell) if !cell.members.is_sorted_by(|a, b| a.name <= b.name) => {
            cell.members.iter().position(|member| member.name == name).unwrap_or(usize::MAX)
        }
        Some(_) | None => 0,
    };
    (known, USUAL_ORDER.iter().position(|&usual| usual == name).unwrap_or(usize::MAX))
}

/// A cell's text taken apart into its members and what stands between them.
struct Draft<'a> {
    open: &'a str,
    close: &'a str,
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    name: String,
    /// What separates it from the part before; not written for the first.
    separator: String,
    /// The key and its colon.
    key: String,
    value: std::borrow::Cow<'a, str>,
}

impl<'a> Draft<'a> {
    fn of(text: &'a str, cell: &Cell) -> Self {
        let Span { start, end } = cell.span;
        let (first, last) = match cell.members.as_slice() {
            [] => (end - 1, end - 1),
            [only] => (only.key.start, only.value.end),
            [first, .., last] => (first.key.start, last.value.end),
        };
        let mut previous: Option<&Member> = None;
        let parts = cell
            .members
            .iter()
            .map(|member| {
                let separator = previous.map_or("", |before| &text[before.value.end..member.key.start]);
                previous = Some(member);
                Part {
                    name: member.name.clone(),
                    separator: separator.to_owned(),
                    key: text[member.key.start..member.value.start].to_owned(),
                    value: member.value.of(text).into(),
                }
            })
            .collect();
        Self { open: &text[start..first], close: &text[last..end], parts }
    }

    /// Sets a member; one that is missing goes where its name belongs, or to the end where none is in order.
    fn set(&mut self, name: &str, value: String, layout: &Layout) {
        if let Some(part) = self.parts.iter_mut().find(|part| part.name == name) {
            part.value = value.into();
            return;
        }
        let in_order = self.parts.is_sorted_by(|a, b| a.name <= b.name);
        let place = if in_order {
            self.parts.partition_point(|part| part.name.as_str() < name)
        } else {
            self.parts.len()
        };
        let separator = layout.separator(&layout.member_break);
        // Whoever is first needs no separator; the one that it pushes back does.
        if place == 0
            && let Some(pushed) = self.parts.first_mut()
        {
            pushed.separator.clone_from(&separator);
        }
        let key = format!("\"{name}\"{}", layout.colon);
        self.parts.insert(place, Part { name: name.to_owned(), separator, key, value: value.into() });
    }

    fn remove(&mut self, name: &str) {
        self.parts.retain(|part| part.name != name);
    }

    fn finish(&self) -> String {
        let mut text = self.open.to_owned();
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                text.push_str(&part.separator);
            }
            text.push_str(&part.key);
            text.push_str(&part.value);
        }
        text.push_str(self.close);
        text
    }
}
