//! How a notebook is written (indent, line breaks, separators, escapes), and new text written alike.
//!
//! Invariant: nothing here changes text that is already in the notebook.

use super::json::{Member, Span};
use super::notebook::{Cell, Notebook};

/// How the cells of a notebook are written.
pub(super) struct Layout {
    /// What stands before a cell, before a cell's member, and before an item of a member's list: a line
    /// break and an indent, or nothing in a notebook on one line.
    pub(super) cell_break: String,
    pub(super) member_break: String,
    pub(super) item_break: String,
    /// What closes the list of cells is one step out.
    pub(super) array_break: String,
    /// Between a key and its value.
    pub(super) colon: String,
    /// Between two items on one line.
    pub(super) comma: String,
    escape: Escape,
}

/// How characters beyond ASCII are written in strings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// As themselves, as Jupyter does.
    Plain,
    /// As `\u` escapes, as Python's `json` does by default.
    Ascii,
}

impl Layout {
    /// Reads it off the cell nearest to the change, or off the notebook's own members where it has no cell.
    pub(super) fn of(notebook: &Notebook<'_>, near: Option<&Cell>) -> Self {
        let text = notebook.text;
        let escape = if text.is_ascii() && has_unicode_escape(text) { Escape::Ascii } else { Escape::Plain };
        let (span, members, steps_in) = match near {
            Some(cell) => (cell.span, cell.members.as_slice(), 0),
            None => (notebook.root, notebook.root_members.as_slice(), 2),
        };
        let Some(frame) = Frame::of(text, span, members) else {
            return Self::on_one_line(text, members, escape);
        };
        let step = |steps: usize| format!("{}{}", frame.outer, frame.unit.repeat(steps));
        Self {
            array_break: if near.is_some() { frame.step_out() } else { step(steps_in - 1) },
            cell_break: step(steps_in),
            member_break: step(steps_in + 1),
            item_break: step(steps_in + 2),
            colon: colon_of(text, members),
            comma: ", ".to_owned(),
            escape,
        }
    }

    fn on_one_line(text: &str, members: &[Member], escape: Escape) -> Self {
        let comma = match members {
            [first, second, ..] => text[first.value.end..second.key.start].to_owned(),
            _ => ", ".to_owned(),
        };
        Self {
            cell_break: String::new(),
            member_break: String::new(),
            item_break: String::new(),
            array_break: String::new(),
            colon: colon_of(text, members),
            comma,
            escape,
        }
    }

    /// What separates two parts that each stand behind `line_break`.
    pub(super) fn separator(&self, line_break: &str) -> String {
        if line_break.is_empty() { self.comma.clone() } else { format!(",{line_break}") }
    }

    /// A JSON string of `value`.
    pub(super) fn string(&self, value: &str) -> String {
        let mut literal = String::with_capacity(value.len() + 2);
        literal.push('"');
        for c in value.chars() {
            match c {
                '"' => literal.push_str("\\\""),
                '\\' => literal.push_str("\\\\"),
                '\n' => literal.push_str("\\n"),
                '\r' => literal.push_str("\\r"),
                '\t' => literal.push_str("\\t"),
                '\u{8}' => literal.push_str("\\b"),
                '\u{c}' => literal.push_str("\\f"),
                c if c < ' ' || (self.escape == Escape::Ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        literal.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => literal.push(c),
            }
        }
        literal.push('"');
        literal
    }
}

/// The line breaks around the members of an object that is written over several lines.
struct Frame {
    /// Line break and indent of the closing brace.
    outer: String,
    /// One step of indent.
    unit: String,
}

impl Frame {
    fn of(text: &str, span: Span, members: &[Member]) -> Option<Self> {
        let (first, last) = (members.first()?, members.last()?);
        let inner = &text[span.start + 1..first.key.start];
        let outer = &text[last.value.end..span.end - 1];
        let line_feed = inner.rfind('\n')?;
        let line_break = if inner[..line_feed].ends_with('\r') { "\r\n" } else { "\n" };
        let inner_indent = &inner[line_feed + 1..];
        let outer_indent = outer.rfind('\n').map_or("", |at| &outer[at + 1..]);
        let unit = inner_indent.strip_prefix(outer_indent).unwrap_or(" ");
        Some(Self { outer: format!("{line_break}{outer_indent}"), unit: unit.to_owned() })
    }

    fn step_out(&self) -> String {
        self.outer.strip_suffix(self.unit.as_str()).unwrap_or(&self.outer).to_owned()
    }
}

fn colon_of(text: &str, members: &[Member]) -> String {
    members.first().map_or(": ", |member| &text[member.key.end..member.value.start]).to_owned()
}

/// Whether some string holds an escaped character beyond ASCII.
fn has_unicode_escape(text: &str) -> bool {
    memchr::memmem::find_iter(text.as_bytes(), b"\\u").any(|at| {
        let digits = text.get(at + 2..at + 6).unwrap_or_default();
        u16::from_str_radix(digits, 16).is_ok_and(|unit| unit >= 0x80)
    })
}
