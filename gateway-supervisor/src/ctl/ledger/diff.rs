//! What each change of a session changed, as unified diffs of the versions that are kept.

use std::time::Duration;

use protocol::{digest::Digest, id::SessionId};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::{
    ctl::{
        Report,
        page::{Cell, Page, Tone},
    },
    ledger::{
        blobs::{Blobs, Lost},
        changes::{Author, Change, Changes, Standing},
        inspect::Inspected,
    },
};

/// How long one comparison may take before it is coarse.
const COMPARING: Duration = Duration::from_secs(2);

/// What can be shown of a change.
enum Shown {
    /// A unified diff.
    Text(String),
    /// Why there is none, for people.
    Not(String),
}

pub(super) fn diffs(session: SessionId, inspected: &Inspected, blobs: &Blobs) -> Report {
    let (mut page, mut changes) = (Page::default(), Vec::<Value>::new());
    let told = Changes::of(&inspected.records);
    for change in told.iter().filter(|change| matters(change)) {
        if !changes.is_empty() {
            page.gap();
        }
        page.row([Cell::new(heading(change, &told), Tone::Name)]);
        let shown = shown(change, blobs);
        match &shown {
            Shown::Text(diff) => lines(diff).for_each(|line| page.row([Cell::new(&line, tone(&line))])),
            Shown::Not(why) => page.row([Cell::new(why, Tone::Care)]),
        }
        changes.push(body((change, &told), &shown));
    }
    if changes.is_empty() {
        page.row([Cell::plain("The session changed no file.")]);
    }
    Report::done(json!({"native_session_id": session, "changes": changes}), page)
}

/// Changes that were made, or may have been.
fn matters(change: &Change) -> bool {
    match change.standing {
        Standing::Applied | Standing::Indeterminate => true,
        Standing::Open | Standing::NotApplied => false,
    }
}

fn heading(change: &Change, told: &Changes) -> String {
    let mut heading = format!("{} {} {}", change.at, change.action_id, change.path);
    match change.author {
        Author::Session => {}
        Author::Subsession(id) => heading.push_str(&format!(", by the sub-session {id}")),
        Author::Owner { undoes } => heading.push_str(&format!(", undoes {undoes}")),
    }
    if let Some(undo) = told.undone_by(change.action_id) {
        heading.push_str(&format!(", undone by {}", undo.action_id));
    }
    if change.standing == Standing::Indeterminate {
        heading.push_str(", and whether it was made can't be known");
    }
    heading
}

fn body((change, told): (&Change, &Changes), shown: &Shown) -> Value {
    let (diff, note) = match shown {
        Shown::Text(diff) => (Some(diff), None),
        Shown::Not(why) => (None, Some(why)),
    };
    let mut body = json!({
        "action_id": change.action_id, "at": change.at.to_string(), "path": change.path,
        "before": change.before, "after": change.after, "diff": diff,
        "outcome": if change.standing == Standing::Applied { "applied" } else { "indeterminate" },
    });
    if let Some(note) = note {
        body["note"] = json!(note);
    }
    match change.author {
        Author::Session => {}
        Author::Subsession(id) => body["subsession_id"] = json!(id),
        Author::Owner { undoes } => body["undoes"] = json!(undoes),
    }
    if let Some(undo) = told.undone_by(change.action_id) {
        body["undone_by"] = json!(undo.action_id);
    }
    body
}

fn shown(change: &Change, blobs: &Blobs) -> Shown {
    let Change { before, after, bytes, .. } = change;
    let read = |digest: Option<Digest>| digest.map_or(Ok(Vec::new()), |digest| blobs.read(digest));
    let (old, new) = match (read(*before), read(*after)) {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => return Shown::Not(lost(change, (old.err(), new.err()))),
    };
    match (text(&old), text(&new)) {
        (Some(old), Some(new)) => {
            let (from, to) = (named(before.is_some(), change), named(after.is_some(), change));
            let compared = TextDiff::configure().timeout(COMPARING).diff_lines(old, new);
            Shown::Text(compared.unified_diff().header(from, to).to_string())
        }
        (_, _) => Shown::Not(format!("no text: {} bytes before, {} after", bytes.0, bytes.1)),
    }
}

fn named(exists: bool, change: &Change) -> &str {
    if exists { &change.path } else { "/dev/null" }
}

/// What a person reads as lines.
fn text(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))
}

fn lost(change: &Change, (old, new): (Option<Lost>, Option<Lost>)) -> String {
    let which = match (old, new) {
        (Some(_), Some(_)) => "the versions before and after",
        (Some(_), None) => "the version before",
        (None, _) => "the version after",
    };
    let why = match (old, new) {
        (Some(Lost::Damaged), _) | (_, Some(Lost::Damaged)) => "damaged; --verify names what is",
        _ if !change.kept => "not kept: the disk did not take it",
        _ => "not kept any more",
    };
    let verb = if old.is_some() && new.is_some() { "are" } else { "is" };
    format!("{which} {verb} {why}")
}

/// The lines of a diff as a terminal shows them. A carriage return is a part of its line, and shown where not every line of the
/// text has one.
fn lines(diff: &str) -> impl Iterator<Item = String> {
    let of_text = |line: &&str| matches!(line.as_bytes(), [b' ' | b'+' | b'-', ..]);
    let texts: Vec<&str> = diff.split_terminator('\n').skip(2).filter(of_text).collect();
    let mixed = texts.iter().any(|line| line.ends_with('\r')) && !texts.iter().all(|l| l.ends_with('\r'));
    diff.split_terminator('\n').map(move |line| match line.strip_suffix('\r') {
        Some(line) if mixed => format!("{line}␍"),
        Some(line) => line.to_owned(),
        None => line.to_owned(),
    })
}

fn tone(line: &str) -> Tone {
    match line.as_bytes().first() {
        Some(b'+') => Tone::Good,
        Some(b'-') => Tone::Bad,
        Some(b'@') => Tone::Care,
        Some(_) | None => Tone::Plain,
    }
}
