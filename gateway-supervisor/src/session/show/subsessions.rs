//! Delegated tasks as anybody may see them.

use super::super::{
    state::{State, Subsession},
    view::{FileChangeView, SubsessionView},
};
use crate::boundary;

/// As many of the newest ones as a view lists: it goes with every result.
const LISTED: usize = 8;

/// As many changed files as a view lists of one.
const FILES: usize = 32;

/// How much of a final text a view repeats; `deepseek_subagent_get` gives all that was kept.
const TEXT_BYTES: usize = 1024;

/// The newest sub-sessions, the oldest of them first.
pub(super) fn views(state: &State) -> Vec<SubsessionView> {
    let skipped = state.subsessions.len().saturating_sub(LISTED);
    state.subsessions.iter().skip(skipped).map(view).collect()
}

fn view(sub: &Subsession) -> SubsessionView {
    let summary = sub.summary();
    SubsessionView {
        id: sub.id.to_string(),
        state: sub.state.name().to_owned(),
        model: sub.tier.name().to_owned(),
        started_at: sub.started_at.to_string(),
        ended_at: sub.end.as_ref().map(|(at, _)| at.to_string()),
        turns: summary.turns,
        reason: summary.reason,
        text: summary.text.map(|text| text[..boundary::floor(&text, TEXT_BYTES)].to_owned()),
        files_changed: summary
            .files
            .into_iter()
            .take(FILES)
            .map(|file| FileChangeView {
                path: file.path,
                sha256_before: file.before.map(|digest| digest.to_string()),
                sha256_after: file.after.to_string(),
            })
            .collect(),
    }
}
