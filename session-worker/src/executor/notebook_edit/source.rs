//! A cell's source: a list of lines or one string, kept in the form that it has.

use std::collections::HashMap;

use super::NotebookError;
use super::json::{self, Span};
use super::layout::Layout;
use super::notebook::{invalid, not_json};

/// How a source is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A list of lines, each but the last with its line feed.
    Lines,
    /// One string.
    Whole,
}

/// The form of the source at `value`.
pub(super) fn form_of(text: &str, value: Span) -> Form {
    if value.of(text).starts_with('"') { Form::Whole } else { Form::Lines }
}

/// A new source where none stands yet.
pub(super) fn render(layout: &Layout, form: Form, source: &str) -> String {
    match form {
        Form::Whole => layout.string(source),
        Form::Lines => {
            let lines: Vec<String> = source.split_inclusive('\n').map(|line| layout.string(line)).collect();
            if lines.is_empty() {
                return "[]".to_owned();
            }
            let separator = layout.separator(&layout.item_break);
            let (open, close) = (&layout.item_break, &layout.member_break);
            format!("[{open}{}{close}]", lines.join(&separator))
        }
    }
}

/// The source at `value` with `source` in its place: the same form, and lines that stay keep their bytes.
///
/// # Errors
/// The source is neither a string nor a list of strings.
pub(super) fn replace(
    text: &str,
    value: Span,
    (layout, source): (&Layout, &str),
) -> Result<String, NotebookError> {
    if form_of(text, value) == Form::Whole {
        let same = json::string(text, value).is_some_and(|old| old == source);
        return Ok(if same { value.of(text).to_owned() } else { layout.string(source) });
    }
    let items = json::items(text, value).map_err(|broken| not_json(text, broken))?;
    let items = items.ok_or(invalid("the cell's source is neither text nor a list of lines"))?;
    if items.iter().any(|item| !item.of(text).starts_with('"')) {
        return Err(invalid("the cell's source holds something that is not text"));
    }
    let (Some(first), Some(last)) = (items.first(), items.last()) else {
        return Ok(if source.is_empty() {
            value.of(text).to_owned()
        } else {
            render(layout, Form::Lines, source)
        });
    };
    let old: Vec<Option<String>> = items.iter().map(|&item| json::string(text, item)).collect();
    let whole: Option<Vec<&str>> = old.iter().map(Option::as_deref).collect();
    if whole.is_some_and(|lines| lines.concat() == source) {
        return Ok(value.of(text).to_owned());
    }
    if source.is_empty() {
        return Ok("[]".to_owned());
    }
    let written: HashMap<&str, &str> =
        old.iter().zip(&items).filter_map(|(line, item)| Some((line.as_deref()?, item.of(text)))).collect();
    let lines: Vec<String> = source
        .split_inclusive('\n')
        .map(|line| {
            written.get(line).map_or_else(|| layout.string(line), |&as_written| as_written.to_owned())
        })
        .collect();
    let lead = &text[value.start + 1..first.start];
    let tail = &text[last.end..value.end - 1];
    let separator = match items.get(1) {
        Some(second) => text[first.end..second.start].to_owned(),
        None if lead.contains('\n') => format!(",{lead}"),
        None => layout.comma.clone(),
    };
    Ok(format!("[{lead}{}{tail}]", lines.join(&separator)))
}
