//! What each change of a session changed, as unified diffs of the versions that are kept.

use std::{fs, path::Path, time::Duration};

use protocol::{
    digest::Digest,
    id::SessionId,
    receipt::{Facts, FileVersion},
};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::{
    ctl::{
        Report,
        page::{Cell, Page, Tone},
    },
    ledger::{inspect::Inspected, record::Entry},
};

/// How long one comparison may take before it is coarse.
const COMPARING: Duration = Duration::from_secs(2);

pub(super) fn diffs(session: SessionId, inspected: &Inspected, blobs: &Path) -> Report {
    let (mut page, mut changes) = (Page::default(), Vec::<Value>::new());
    for record in &inspected.records {
        let Entry::Receipt { receipt, .. } = &record.entry else { continue };
        let Facts::Wrote { before, after } = &receipt.facts else { continue };
        let diff = diff((*before, after), blobs);
        if !changes.is_empty() {
            page.gap();
        }
        page.row([Cell::new(format!("{} {} {}", record.at, receipt.action_id, after.path), Tone::Name)]);
        match &diff {
            Some(diff) => diff.lines().for_each(|line| page.row([Cell::new(line, tone(line))])),
            None => page.row([Cell::new("its versions are not kept any more", Tone::Care)]),
        }
        changes.push(json!({
            "action_id": receipt.action_id, "at": record.at.to_string(), "path": after.path,
            "before": before, "after": after.sha256, "diff": diff,
        }));
    }
    if changes.is_empty() {
        page.row([Cell::plain("The session changed no file.")]);
    }
    Report::done(json!({"native_session_id": session, "changes": changes}), page)
}

fn diff((before, after): (Option<Digest>, &FileVersion), blobs: &Path) -> Option<String> {
    let content = |digest: Digest| fs::read_to_string(blobs.join(digest.to_string())).ok();
    let old = before.map_or(Some(String::new()), content)?;
    let new = content(after.sha256)?;
    let from = if before.is_some() { after.path.as_str() } else { "/dev/null" };
    let compared = TextDiff::configure().timeout(COMPARING).diff_lines(&old, &new);
    Some(compared.unified_diff().header(from, &after.path).to_string())
}

fn tone(line: &str) -> Tone {
    match line.as_bytes().first() {
        Some(b'+') => Tone::Good,
        Some(b'-') => Tone::Bad,
        Some(b'@') => Tone::Care,
        Some(_) | None => Tone::Plain,
    }
}
