//! "Did you mean": names that differ from a missing one in case, Unicode form or look-alike spaces only (X1).

use std::path::{Component, Path, PathBuf};

use protocol::failure::ToolErrorCode;
use sandbox_profiles::{Judgement, Protected};
use unicode_normalization::UnicodeNormalization;

use crate::executor::{display, outcome::ToolFailure};

/// Directory entries looked at for one missing path: a directory of 20,000 names is read in about 10 ms.
const MOST_ENTRIES: usize = 20_000;

/// Names suggested for one missing path.
const MOST_NAMES: usize = 5;

pub(super) fn not_found(path: &Path, protected: &Protected) -> ToolFailure {
    let shown = display::path(path);
    let mut search = Search { protected, entries: MOST_ENTRIES, found: Vec::new() };
    let parts: Vec<Component<'_>> = path.components().collect();
    let missing = search.descend(PathBuf::new(), &parts);
    let what = match &missing {
        Some(missing) if missing != path => format!("{} does not exist", display::path(missing)),
        Some(_) | None => "there is no such file or directory".to_owned(),
    };
    let next = match search.found.as_slice() {
        [] => "FindFiles lists what is there".to_owned(),
        names => {
            let names: Vec<_> = names.iter().map(|name| display::path(name)).collect();
            format!("did you mean {}?", names.join(" or "))
        }
    };
    ToolFailure::new(ToolErrorCode::NotFound, format!("opening {shown}: {what}; {next}"))
}

struct Search<'a> {
    protected: &'a Protected,
    entries: usize,
    found: Vec<PathBuf>,
}

impl Search<'_> {
    /// Follows `parts` below `at`, taking look-alikes where a part is missing. Returns the first missing path.
    fn descend(&mut self, mut at: PathBuf, parts: &[Component<'_>]) -> Option<PathBuf> {
        for (index, part) in parts.iter().enumerate() {
            let next = at.join(part);
            if next.symlink_metadata().is_ok() {
                at = next;
                continue;
            }
            for name in self.look_alikes(&at, part) {
                if self.descend(at.join(name), &parts[index + 1..]).is_none() {
                    self.entries = self.entries.saturating_sub(1);
                }
            }
            return Some(next);
        }
        if self.found.len() < MOST_NAMES {
            self.found.push(at);
        }
        None
    }

    fn look_alikes(&mut self, directory: &Path, missing: &Component<'_>) -> Vec<PathBuf> {
        let Component::Normal(missing) = missing else { return Vec::new() };
        let wanted = fold(&missing.to_string_lossy());
        // What lies in a protected directory is not told, not even by a name.
        let Ok(real) = directory.canonicalize() else { return Vec::new() };
        if self.protected.judge(&real, None) != Judgement::Open {
            return Vec::new();
        }
        let Ok(entries) = real.read_dir() else { return Vec::new() };
        let mut names: Vec<PathBuf> = entries
            .take(self.entries)
            .flatten()
            .inspect(|_| self.entries = self.entries.saturating_sub(1))
            .map(|entry| PathBuf::from(entry.file_name()))
            .filter(|name| fold(&name.to_string_lossy()) == wanted)
            .filter(|name| self.protected.judge(&real.join(name), None) == Judgement::Open)
            .take(MOST_NAMES)
            .collect();
        names.sort();
        names
    }
}

/// The same for names that look the same but for case.
fn fold(name: &str) -> String {
    let spaces = name.chars().filter_map(|character| match character {
        '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => None,
        _ if character.is_whitespace() => Some(' '),
        _ => Some(character),
    });
    let composed: String = spaces.nfc().collect();
    composed.to_lowercase().nfc().collect()
}
