//! The worktrees as a page.

use serde_json::Value;

use super::page::{Cell, Page, Tone};

fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body[field].as_str().unwrap_or_default()
}

/// Every worktree, and how its owner takes the work over.
pub(super) fn list(body: &Value) -> Page {
    let mut page = Page::default();
    let worktrees = body["worktrees"].as_array().map(Vec::as_slice).unwrap_or_default();
    if worktrees.is_empty() {
        page.row([Cell::plain("No worktrees. A session with the profile worktree_write makes one.")]);
        return page;
    }
    for worktree in worktrees {
        page.pair(
            "session",
            format!("{} ({})", text(worktree, "native_session_id"), text(worktree, "status")),
        );
        page.pair("worktree", text(worktree, "path"));
        page.pair(
            "branch",
            format!("{} of {}", text(worktree, "branch"), text(worktree, "source_directory")),
        );
        if worktree["removal_interrupted"] == true {
            let again = format!("gatewayctl worktree remove {}", text(worktree, "native_session_id"));
            page.pair("removal", format!("was interrupted; complete it with {again}"));
        } else {
            page.pair("take over", text(worktree, "take_over"));
        }
        page.gap();
    }
    page
}

/// What became of a removal.
pub(super) fn removed(body: &Value) -> Page {
    let mut page = Page::default();
    page.row([Cell::new(format!("{} is removed, and its branch with it.", text(body, "path")), Tone::Good)]);
    page
}
