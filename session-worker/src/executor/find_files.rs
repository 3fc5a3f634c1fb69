//! `FindFiles`: a bounded, sorted listing below a directory (X2).

#[cfg(test)]
mod tests;

use std::{fmt::Write, path::Path};

use protocol::{
    limits::RECEIPT_BYTES,
    receipt::Facts,
    tool::{FileKind, FindFiles},
};
use sandbox_profiles::{FileIdentity, Judgement, Protected};

use super::{
    display,
    outcome::{ToolFailure, ToolOutcome},
    paths::{self, Wanted},
    tools::Surroundings,
    walk::{
        self, Entry, Ignoring, Key, Kind, Node, Plan, Tally, Visitor,
        filter::NameFilter,
        shelf::{Amount, Enough, Shelf},
    },
};

/// Entries listed where no limit is asked for.
const LIMIT: u64 = 1_000;

/// Room for what is said beside the entries.
const REMARKS: usize = 1_024;

/// Lists what lies below a directory.
///
/// # Errors
/// The directory can't be opened, or the glob is none.
pub(crate) fn find_files(input: &FindFiles, around: &Surroundings) -> Result<ToolOutcome, ToolFailure> {
    let asked = around.place(input.directory.as_deref());
    let filter = NameFilter::of(input.glob.as_deref())?;
    let opened = paths::open(asked, Wanted::Directory, &around.protected)?;
    let root = opened.path.clone();
    let limit = input.limit.unwrap_or(LIMIT);
    let wanted = Amount { count: limit + 1, bytes: RECEIPT_BYTES as u64 };
    let lister = Lister {
        filter,
        kind: input.kind.unwrap_or_default(),
        protected: &around.protected,
        shelf: Shelf::new(wanted, Enough::Ends),
    };
    let plan = Plan {
        protected: &around.protected,
        stop: &around.stop,
        bound: lister.shelf.bound(),
        max_depth: input.max_depth.unwrap_or(u64::MAX),
        ignoring: Ignoring::from(input.respect_gitignore),
    };
    let tally = walk::below(opened, &plan, &lister);
    let lines: Vec<String> = lister.shelf.into_found().flat_map(|(_, lines)| lines).collect();
    Ok(ToolOutcome::done(listing(&root, &lines, limit, &tally), Facts::None))
}

fn listing(root: &Path, lines: &[String], limit: u64, tally: &Tally) -> String {
    let room = RECEIPT_BYTES - REMARKS - root.as_os_str().len().min(REMARKS);
    let mut body = String::new();
    let mut shown = 0;
    for line in lines {
        if shown == limit || body.len() + line.len() + 1 > room {
            break;
        }
        body.push_str(line);
        body.push('\n');
        shown += 1;
    }
    let root = display::path(root);
    let root = display::start(&root, REMARKS);
    let mut text = match (shown, lines.len() as u64 > shown) {
        (0, _) => format!("nothing was found below {root}\n"),
        (1, false) => format!("1 entry below {root}\n"),
        (_, false) => format!("{shown} entries below {root}\n"),
        (_, true) => format!(
            "the first {shown} entries below {root}, in the order of their paths\n[there are more: ask for a directory further down, a glob, or fewer levels]\n"
        ),
    };
    if tally.unreadable() > 0 {
        let _ =
            writeln!(text, "[the operating system did not let {} directories be read]", tally.unreadable());
    }
    text.push('\n');
    text.push_str(&body);
    text
}

struct Lister<'a> {
    filter: NameFilter,
    kind: FileKind,
    protected: &'a Protected,
    shelf: Shelf<Vec<String>>,
}

impl Lister<'_> {
    /// Whether an entry may be listed: a file that is another name of a protected one may not.
    fn may_list(&self, directory: &Node, entry: &Entry) -> bool {
        if entry.kind != Kind::File {
            return true;
        }
        let Ok(stat) = directory.stat(&entry.name) else { return true };
        if stat.st_nlink <= 1 {
            return true;
        }
        // What can't be judged counts as protected.
        let opened = directory.open(&entry.name).and_then(|file| file.metadata());
        let Ok(metadata) = opened else { return false };
        let identity = FileIdentity::of(&metadata);
        self.protected.judge(&directory.path_of(entry), Some(identity)) == Judgement::Open
    }
}

impl Visitor for Lister<'_> {
    type Own = ();
    type More = ();

    fn wants(&self, directory: &Node, entry: &Entry) -> bool {
        let kind = match self.kind {
            FileKind::File => entry.kind == Kind::File,
            FileKind::Directory => entry.kind == Kind::Directory,
            FileKind::Symlink => entry.kind == Kind::Symlink,
            FileKind::Any => true,
        };
        kind && self.filter.takes(directory, entry)
    }

    fn visit(&self, directory: &Node, entries: &[Entry], (): &mut ()) -> Vec<(Key, ())> {
        let lines: Vec<String> = entries
            .iter()
            .filter(|entry| self.may_list(directory, entry))
            .map(|entry| line(directory, entry))
            .collect();
        if let Some(first) = entries.first() {
            let bytes = lines.iter().map(|line| line.len() as u64 + 1).sum();
            let amount = Amount { count: lines.len() as u64, bytes };
            self.shelf.put(directory.key_of(&first.name), amount, lines);
        }
        Vec::new()
    }

    fn go_on(&self, (): (), (): &mut ()) {}
}

fn line(directory: &Node, entry: &Entry) -> String {
    let path = directory.path_of(entry);
    let mut line = display::path(&path).into_owned();
    match entry.kind {
        Kind::File | Kind::Other => {}
        Kind::Directory => line.push('/'),
        Kind::Symlink => {
            if let Ok(target) = directory.link_target(&entry.name) {
                let _ = write!(line, " -> {}", display::path(&target));
            }
        }
    }
    line
}
