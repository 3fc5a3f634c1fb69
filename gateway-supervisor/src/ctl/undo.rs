//! An undo as a page.

use serde_json::Value;

use super::page::{Cell, Page, Tone};

fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body[field].as_str().unwrap_or_default()
}

/// What an undo did.
pub(super) fn undone(body: &Value) -> Page {
    let mut page = Page::default();
    let (path, undoes) = (text(body, "path"), text(body, "undoes"));
    let line = if body["outcome"] == "already_undone" {
        format!("{undoes} was undone already, at {}; nothing was done now.", text(body, "at"))
    } else if body["after"].is_string() {
        format!("{path} holds again what it held before {undoes}.")
    } else {
        format!("{path} is taken away: {undoes} had made it.")
    };
    page.row([Cell::new(line, Tone::Good)]);
    for note in body["notes"].as_array().into_iter().flatten() {
        page.row([Cell::new(note.as_str().unwrap_or_default(), Tone::Care)]);
    }
    let (session, action) = (text(body, "native_session_id"), text(body, "action_id"));
    page.gap();
    page.row([Cell::plain(format!("To take the undo back: gatewayctl undo {session} {action}"))]);
    page
}
