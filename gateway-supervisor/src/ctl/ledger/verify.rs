//! Whether everything that a session keeps is what it was.

use std::{collections::BTreeSet, fs, path::Path};

use protocol::{digest::Digest, id::SessionId, receipt::Facts};
use serde_json::json;

use crate::{
    ctl::{
        Report,
        page::{Cell, Page, Tone},
    },
    ledger::{inspect::Inspected, record::Entry},
};

/// The chain was checked by reading it; here every kept content is held against its name.
pub(super) fn verify(session: SessionId, inspected: &Inspected, blobs: &Path) -> Report {
    let named: BTreeSet<Digest> =
        inspected.records.iter().flat_map(|record| contents(&record.entry)).collect();
    let (mut kept, mut damaged) = (BTreeSet::new(), Vec::new());
    for entry in fs::read_dir(blobs).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(digest) = name.parse::<Digest>() else { continue };
        match fs::read(entry.path()) {
            Ok(content) if Digest::of(&content) == digest => {
                kept.insert(digest);
            }
            Ok(_) | Err(_) => damaged.push(name),
        }
    }
    let dropped = named.difference(&kept).count();
    let whole = damaged.is_empty();
    let mut page = Page::default();
    page.row([
        Cell::new("journal", Tone::Name),
        Cell::new(format!("{} records, the chain is whole", inspected.records.len()), Tone::Good),
    ]);
    let tone = if whole { Tone::Good } else { Tone::Bad };
    let text = format!("{} kept, {} damaged, {dropped} no longer kept", kept.len(), damaged.len());
    page.row([Cell::new("versions", Tone::Name), Cell::new(text, tone)]);
    for name in &damaged {
        page.pair("damaged", name.clone());
    }
    let body = json!({
        "native_session_id": session, "records": inspected.records.len(), "unfinished": inspected.unfinished,
        "versions": {"kept": kept.len(), "damaged": damaged, "no_longer_kept": dropped}, "whole": whole,
    });
    Report { json: body, page, code: u8::from(!whole) }
}

/// The contents that a record names.
fn contents(entry: &Entry) -> Vec<Digest> {
    let Entry::Receipt { receipt, .. } = entry else { return Vec::new() };
    match &receipt.facts {
        Facts::Wrote { before, after } => before.iter().copied().chain([after.sha256]).collect(),
        Facts::None | Facts::Observed(_) | Facts::Ran(_) => Vec::new(),
    }
}
