//! The one list of what no tool and no command may see.
//!
//! Invariant: every protected path is held both as it was named and as it resolves, so that neither a link to a
//! store nor a link from it opens a way in.
//! Invariant: what can't be judged is protected.

mod catalogue;
mod links;
mod names;
#[cfg(test)]
mod tests;

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::spec::AbsolutePath;
use links::LinkIndex;
use names::{has_prefix_below, is_below, is_process, starts_as_the_system_compares};

/// Where protected paths come from.
#[derive(Debug, Clone, Default)]
pub struct ProtectedSources {
    /// The home directories whose credential stores count: `$HOME` and the account's own.
    pub homes: Vec<PathBuf>,
    /// The gateway's own directories: state, configuration, sockets.
    pub own: Vec<PathBuf>,
    /// What the user added.
    pub added: Vec<PathBuf>,
    /// Folders that are one's own among others' that are not: all of their parents but they themselves is protected. A
    /// cage is told of the others one by one, as it must not hide its own.
    pub alone_below: Vec<PathBuf>,
}

/// What a file is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// How many names the file has.
    pub links: u64,
    /// Whether it is a directory, whose link count says nothing about other names.
    pub is_directory: bool,
}

impl FileIdentity {
    /// The identity in a file's metadata; take the metadata from the opened file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            links: metadata.nlink(),
            is_directory: metadata.is_dir(),
        }
    }
}

/// Why something is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtectedBy {
    /// It lies at or below this path.
    Path(PathBuf),
    /// It is another hard link of a protected file.
    HardLink,
    /// It has several hard links and the protected stores are too large to rule out that one of them is there.
    TooManyToCompare,
    /// It belongs to a process (`/proc/<pid>`, `self` included).
    Process,
}

/// The answer for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Judgement {
    /// Nothing protects it.
    Open,
    /// It must not be shown, searched, listed or written.
    Protected(ProtectedBy),
}

/// The protected paths of this machine and user, gathered once per session.
#[derive(Debug)]
pub struct Protected {
    trees: Vec<PathBuf>,
    /// In these directories every name that starts so.
    prefixes: Vec<(PathBuf, &'static str)>,
    /// Folders below whose parent nothing else is open.
    alone: Vec<PathBuf>,
    links: LinkIndex,
}

impl Protected {
    /// Gathers the list. Paths need not exist: what appears later under such a name is protected too.
    #[must_use]
    pub fn gather(sources: &ProtectedSources) -> Self {
        let homes = sources.homes.iter().flat_map(|home| as_named_and_resolved(home)).collect::<Vec<_>>();
        let named = homes
            .iter()
            .flat_map(|home| catalogue::IN_HOME.iter().map(|name| home.join(name)))
            .chain(catalogue::SYSTEM.iter().map(PathBuf::from))
            .chain(sources.own.iter().cloned())
            .chain(sources.added.iter().cloned());
        let mut trees: Vec<PathBuf> = named.flat_map(|path| as_named_and_resolved(&path)).collect();
        let mut prefixes: Vec<(PathBuf, &'static str)> = Vec::new();
        for (directory, prefix) in homes
            .iter()
            .flat_map(|home| catalogue::IN_HOME_PREFIXES.iter().map(|prefix| (home.clone(), *prefix)))
            .chain(catalogue::SYSTEM_PREFIXES.iter().map(|(dir, prefix)| (PathBuf::from(dir), *prefix)))
        {
            trees.extend(names_with_prefix(&directory, prefix).iter().flat_map(|p| as_named_and_resolved(p)));
            prefixes.push((directory, prefix));
        }
        trees.sort();
        trees.dedup();
        prefixes.sort();
        prefixes.dedup();
        let links = LinkIndex::over(trees.clone());
        let alone = sources.alone_below.iter().map(|own| resolved(own)).collect();
        Protected { trees, prefixes, alone, links }
    }

    /// Judges a canonical path and, where the caller has opened it, the file behind it.
    pub fn judge(&self, canonical: &Path, identity: Option<FileIdentity>) -> Judgement {
        if is_process(canonical) {
            return Judgement::Protected(ProtectedBy::Process);
        }
        if let Some(tree) = self.trees.iter().find(|tree| is_below(canonical, tree)) {
            return Judgement::Protected(ProtectedBy::Path(tree.clone()));
        }
        if let Some((directory, prefix)) =
            self.prefixes.iter().find(|(directory, prefix)| has_prefix_below(canonical, directory, prefix))
        {
            return Judgement::Protected(ProtectedBy::Path(directory.join(prefix)));
        }
        if let Some(parent) = self.others_of(canonical) {
            return Judgement::Protected(ProtectedBy::Path(parent.to_path_buf()));
        }
        match identity {
            Some(identity) if !identity.is_directory && identity.links > 1 => self.links.judge(identity),
            Some(_) | None => Judgement::Open,
        }
    }

    /// The folder that holds this path among others'.
    fn others_of(&self, canonical: &Path) -> Option<&Path> {
        let own = |own: &&PathBuf| !is_below(canonical, own);
        self.alone
            .iter()
            .filter(own)
            .filter_map(|own| own.parent())
            .find(|parent| is_below(canonical, parent))
    }

    /// Judges an opened file by where it really is and what it really is, whatever name opened it.
    ///
    /// # Errors
    /// Where the system can't tell the file's own path or metadata; treat that as protected.
    pub fn judge_opened(&self, file: &File) -> io::Result<Judgement> {
        let path = crate::os::path_of(file)?;
        if crate::os::is_process_information(file)? && !path.starts_with("/proc") {
            return Ok(Judgement::Protected(ProtectedBy::Process));
        }
        Ok(self.judge(&path, Some(FileIdentity::of(&file.metadata()?))))
    }

    /// Whether a path below the canonical `directory` can be protected by its name, so that a walk has to judge what it
    /// meets there. The directory itself is judged with [`Protected::judge`].
    #[must_use]
    pub fn reaches_below(&self, directory: &Path) -> bool {
        let above = |path: &Path| is_below(path, directory);
        above(Path::new("/proc"))
            || is_below(directory, Path::new("/proc"))
            || self.trees.iter().any(|tree| above(tree))
            || self.prefixes.iter().any(|(parent, _)| above(parent))
            || self.alone.iter().filter_map(|own| own.parent()).any(above)
    }

    /// Every protected path to hide from a cage: as named and as resolved, without those that lie below another.
    /// Names matched by a prefix are those that exist now.
    #[must_use]
    pub fn paths(&self) -> Vec<AbsolutePath> {
        let mut trees = self.trees.clone();
        for (directory, prefix) in &self.prefixes {
            trees.extend(
                names_with_prefix(directory, prefix).iter().flat_map(|path| as_named_and_resolved(path)),
            );
        }
        trees.sort();
        trees.dedup();
        let mut outermost: Vec<PathBuf> = Vec::new();
        for tree in trees {
            // Sorted by component, a parent comes before everything below it.
            if !outermost.last().is_some_and(|parent| tree.starts_with(parent)) {
                outermost.push(tree);
            }
        }
        outermost.into_iter().filter_map(|path| AbsolutePath::new(path).ok()).collect()
    }

    /// Other names of protected files below these folders, to hide from a cage as well. A limit: at most half a million
    /// entries are looked at, and what is linked there afterwards is not known to a cage that stands.
    #[must_use]
    pub fn other_names_below(&self, roots: &[PathBuf]) -> Vec<AbsolutePath> {
        let names = self.links.other_names_below(roots);
        names.into_iter().filter_map(|path| AbsolutePath::new(path).ok()).collect()
    }
}

/// Where an opened file really is: the path by which the system knows it, every link resolved.
///
/// # Errors
/// Where the file has no path, as a pipe or a deleted file can have none.
pub fn path_of(file: &File) -> io::Result<PathBuf> {
    crate::os::path_of(file)
}

/// A path as it was named (under its resolved parent) and as it resolves; not yet existing parts are kept.
fn as_named_and_resolved(path: &Path) -> Vec<PathBuf> {
    if !path.is_absolute() {
        return Vec::new();
    }
    let named = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        (None, _) | (_, None) => resolved(path),
    };
    let target = resolved(path);
    if named == target { vec![named] } else { vec![named, target] }
}

/// Resolves the longest part that exists and appends the rest.
fn resolved(path: &Path) -> PathBuf {
    let mut rest: Vec<&std::ffi::OsStr> = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(real) = existing.canonicalize() {
            return rest.iter().rev().fold(real, |whole, part| whole.join(part));
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name);
                existing = parent;
            }
            (None, _) | (_, None) => return path.to_path_buf(),
        }
    }
}

fn names_with_prefix(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| starts_as_the_system_compares(&entry.file_name().to_string_lossy(), prefix))
        .map(|entry| entry.path())
        .collect()
}
