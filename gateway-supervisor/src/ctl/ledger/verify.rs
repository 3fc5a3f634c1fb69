//! Whether everything that a session keeps is what it was, and what of it is not.
//!
//! The chain is checked by reading it; here every kept content is held against its name, and every content that a change names
//! must be there. Workers drop the oldest contents only when there is no room for another: so where there is room, one that is
//! not there was taken away.

use std::collections::BTreeMap;

use protocol::{
    digest::Digest,
    id::{ActionId, SessionId},
    limits::{TEXT_BYTES, VERSIONS_BYTES},
};
use serde_json::{Value, json};

use crate::{
    ctl::{
        Report,
        page::{Cell, Page, Tone},
    },
    ledger::{
        blobs::{Blobs, Stock},
        changes::{Author, Changes, Standing},
        inspect::Inspected,
    },
};

/// What a shelf holds at least, once anything was dropped from it: the room that was made is no larger than one content.
const HELD_AFTER_DROPPING: u64 = VERSIONS_BYTES - TEXT_BYTES as u64;

/// The contents that changes name, with the changes.
type Named = BTreeMap<Digest, Vec<ActionId>>;

/// What was found of the kept contents.
#[derive(Debug, Default)]
struct Found {
    kept: usize,
    no_longer_kept: usize,
    damaged: Vec<Digest>,
    missing: Vec<Digest>,
    /// A sentence for each thing that is wrong.
    damage: Vec<String>,
}

pub(super) fn verify(session: SessionId, inspected: &Inspected, blobs: &Blobs) -> Report {
    let changes = Changes::of(&inspected.records);
    let mut found = Found::default();
    if inspected.unfinished {
        let (whole, all) = inspected.bytes;
        found.damage.push(format!(
            "the journal is cut in the middle of record {}: {} bytes behind byte {whole} are no whole record; where a crash did that, nobody was told that it was recorded, and the next start of the gateway removes it",
            inspected.records.len() + 1, all - whole
        ));
    }
    for shelf in blobs.shelves() {
        found.shelf(shelf.author, shelf.stock(), &named(&changes, shelf.author));
    }
    report(session, inspected, &found)
}

/// What changes of this author that were made name.
fn named(changes: &Changes, author: Author) -> Named {
    let mut named = Named::new();
    for change in changes.iter().filter(|change| shelved(change.author) == author && change.kept) {
        if change.standing == Standing::Applied {
            for digest in change.contents() {
                named.entry(digest).or_default().push(change.action_id);
            }
        }
    }
    named
}

/// On whose shelf the versions of an author's changes stand.
const fn shelved(author: Author) -> Author {
    match author {
        Author::Session | Author::Owner { .. } => Author::Session,
        Author::Subsession(id) => Author::Subsession(id),
    }
}

impl Found {
    fn shelf(&mut self, author: Author, stock: Stock, named: &Named) {
        let whose = match author {
            Author::Session | Author::Owner { .. } => String::new(),
            Author::Subsession(id) => format!(" of the sub-session {id}"),
        };
        let of = |digest: Digest| match named.get(&digest).map(Vec::as_slice) {
            Some([first, rest @ ..]) => {
                let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
                format!("a version{whose} that {first}{more} changed")
            }
            Some([]) | None => format!("a version{whose} that no change names"),
        };
        self.kept += stock.whole.len();
        for digest in &stock.damaged {
            self.damage.push(format!("{} is damaged: its file {digest} holds something else", of(*digest)));
        }
        let room = stock.bytes < HELD_AFTER_DROPPING;
        for digest in named.keys().filter(|digest| !stock.has(**digest)) {
            if room {
                self.damage.push(format!("{} is missing: there is no file {digest}", of(*digest)));
                self.missing.push(*digest);
            } else {
                self.no_longer_kept += 1;
            }
        }
        self.damaged.extend(stock.damaged);
    }
}

fn report(session: SessionId, inspected: &Inspected, found: &Found) -> Report {
    let whole = found.damage.is_empty();
    let mut page = Page::default();
    let (records, tone) = match inspected.unfinished {
        false => (format!("{} records, the chain is whole", inspected.records.len()), Tone::Good),
        true => (format!("{} records, then the beginning of another", inspected.records.len()), Tone::Bad),
    };
    page.row([Cell::new("journal", Tone::Name), Cell::new(records, tone)]);
    let Found { kept, no_longer_kept, damaged, missing, damage } = found;
    let tone = if damaged.is_empty() && missing.is_empty() { Tone::Good } else { Tone::Bad };
    let mut text = format!("{kept} kept, {} damaged, {} missing", damaged.len(), missing.len());
    if *no_longer_kept > 0 {
        text.push_str(&format!(", {no_longer_kept} no longer kept: newer ones have their room"));
    }
    page.row([Cell::new("versions", Tone::Name), Cell::new(text, tone)]);
    for sentence in damage {
        page.row([Cell::new("damage", Tone::Bad), Cell::plain(sentence)]);
    }
    let body: Value = json!({
        "native_session_id": session, "records": inspected.records.len(), "unfinished": inspected.unfinished,
        "versions": {"kept": kept, "damaged": damaged, "missing": missing, "no_longer_kept": no_longer_kept},
        "damage": damage, "whole": whole,
    });
    Report { json: body, page, code: u8::from(!whole) }
}
