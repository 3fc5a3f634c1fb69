//! Whether a file with several names is another name of a protected one.
//!
//! Invariant: a file that can't be compared with all of them counts as one of them.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
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

/// Device and inode.
type Identity = (u64, u64);

#[derive(Debug)]
enum Seen {
    All {
        files: HashSet<Identity>,
        /// Those that have more names than were met in the protected trees.
        elsewhere: HashSet<Identity>,
    },
    TooMany,
}

/// The last search for other names: where, when, and what it found.
type Search = (Vec<PathBuf>, Instant, Vec<PathBuf>);

/// The identities of all files in the protected trees, looked up only when a file with several links asks.
#[derive(Debug)]
pub(super) struct LinkIndex {
    trees: Vec<PathBuf>,
    seen: Mutex<Option<(Instant, Arc<Seen>)>>,
    searched: Mutex<Option<Search>>,
}

impl LinkIndex {
    pub(super) fn over(trees: Vec<PathBuf>) -> Self {
        LinkIndex { trees, seen: Mutex::new(None), searched: Mutex::new(None) }
    }

    pub(super) fn judge(&self, identity: FileIdentity) -> Judgement {
        match &*self.look() {
            Seen::TooMany => Judgement::Protected(ProtectedBy::TooManyToCompare),
            Seen::All { files, .. } if files.contains(&(identity.device, identity.inode)) => {
                Judgement::Protected(ProtectedBy::HardLink)
            }
            Seen::All { .. } => Judgement::Open,
        }
    }

    /// Other names of protected files below `roots`, as far as they are found: nothing is searched where no protected file
    /// has a name elsewhere, and at most half a million entries where one has.
    pub(super) fn other_names_below(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let seen = self.look();
        let Seen::All { elsewhere, .. } = &*seen else { return Vec::new() };
        if elsewhere.is_empty() {
            return Vec::new();
        }
        let mut searched = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((below, at, found)) = &*searched
            && at.elapsed() < FRESH
            && below == roots
        {
            return found.clone();
        }
        let found = search(roots, &self.trees, elsewhere);
        *searched = Some((roots.to_vec(), Instant::now(), found.clone()));
        found
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
    let mut names: HashMap<Identity, (u64, u64)> = HashMap::new();
    let within = |tree: &&PathBuf| !trees.iter().any(|other| other != *tree && tree.starts_with(other));
    // Each tree once, so that each name is counted once.
    let mut todo: Vec<PathBuf> = trees.iter().filter(within).cloned().collect();
    while let Some(path) = todo.pop() {
        if path.starts_with("/proc") {
            continue; // its files have one name each
        }
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            todo.extend(children(&path));
        } else if metadata.is_file() {
            let known = names.entry((metadata.dev(), metadata.ino())).or_insert((metadata.nlink(), 0));
            known.1 += 1;
        }
        if names.len() + todo.len() > MOST_FILES {
            return Seen::TooMany;
        }
    }
    let elsewhere = names.iter().filter(|(_, (all, met))| all > met).map(|(identity, _)| *identity).collect();
    Seen::All { files: names.into_keys().collect(), elsewhere }
}

/// Names of `wanted` below `roots` and outside `trees`. Links are not followed.
fn search(roots: &[PathBuf], trees: &[PathBuf], wanted: &HashSet<Identity>) -> Vec<PathBuf> {
    let inodes: HashSet<u64> = wanted.iter().map(|(_, inode)| *inode).collect();
    let (mut todo, mut found, mut met) = (roots.to_vec(), Vec::new(), 0_usize);
    while let Some(folder) = todo.pop() {
        if folder.starts_with("/proc") || trees.contains(&folder) {
            continue;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            met += 1;
            if met > MOST_FILES {
                return found;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                todo.push(entry.path());
            } else if kind.is_file()
                && inodes.contains(&entry.ino())
                && entry.metadata().is_ok_and(|file| wanted.contains(&(file.dev(), file.ino())))
            {
                found.push(entry.path());
            }
        }
    }
    found
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).take(MOST_FILES + 1).collect()
}
