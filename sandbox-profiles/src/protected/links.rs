//! Whether a file with several names is another name of a protected one.
//!
//! Invariant: a file that can't be compared with all of them counts as one of them.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{FileIdentity, Judgement, ProtectedBy};

/// Files looked at in all protected trees together. A large browser profile holds some 50,000; ten of them take
/// about a second, once, and only where a file with several links is opened at all.
const MOST_FILES: usize = 500_000;

/// How long one look lasts: a search over a tree of hard links must not walk the stores once per file, and a link
/// made meanwhile is seen soon.
const FRESH: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Seen {
    All(HashSet<(u64, u64)>),
    TooMany,
}

/// The identities of all files in the protected trees, looked up only when a file with several links asks.
#[derive(Debug)]
pub(super) struct LinkIndex {
    trees: Vec<PathBuf>,
    seen: Mutex<Option<(Instant, Arc<Seen>)>>,
}

impl LinkIndex {
    pub(super) fn over(trees: Vec<PathBuf>) -> Self {
        LinkIndex { trees, seen: Mutex::new(None) }
    }

    pub(super) fn judge(&self, identity: FileIdentity) -> Judgement {
        match &*self.look() {
            Seen::TooMany => Judgement::Protected(ProtectedBy::TooManyToCompare),
            Seen::All(files) if files.contains(&(identity.device, identity.inode)) => {
                Judgement::Protected(ProtectedBy::HardLink)
            }
            Seen::All(_) => Judgement::Open,
        }
    }

    fn look(&self) -> Arc<Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, files)) = &*seen
            && at.elapsed() < FRESH
        {
            return Arc::clone(files);
        }
        let files = Arc::new(walk(&self.trees));
        *seen = Some((Instant::now(), Arc::clone(&files)));
        files
    }
}

fn walk(trees: &[PathBuf]) -> Seen {
    let mut files = HashSet::new();
    let mut todo: Vec<PathBuf> = trees.to_vec();
    while let Some(path) = todo.pop() {
        if path.starts_with("/proc") {
            continue; // its files have one name each
        }
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            todo.extend(children(&path));
        } else if metadata.is_file() {
            files.insert((metadata.dev(), metadata.ino()));
        }
        if files.len() + todo.len() > MOST_FILES {
            return Seen::TooMany;
        }
    }
    Seen::All(files)
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).take(MOST_FILES + 1).collect()
}
