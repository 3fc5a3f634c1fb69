//! One directory of a walk: its handle, its place, and what is known about what lies below.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use nix::{
    dir::{Dir, Type},
    fcntl::{AtFlags, OFlag, openat},
    sys::stat::{Mode, SFlag, fstatat},
};
use sandbox_profiles::Protected;

use super::{Ignoring, bound::Key, filesystem, ignored::Rules};
use crate::executor::paths::Opened;

/// Directory handles kept open by one walk: a process on macOS has 256 by default. Beyond them a directory is opened
/// from the root again when something in it is wanted.
const KEPT_HANDLES: usize = 96;

/// What an entry is; a link is never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    Other,
}

/// An entry of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: Box<[u8]>,
    pub(crate) kind: Kind,
}

impl Entry {
    pub(super) fn is_git(&self) -> bool {
        // File systems that ignore case know one name for these.
        if cfg!(target_os = "macos") {
            self.name.eq_ignore_ascii_case(b".git")
        } else {
            &*self.name == b".git"
        }
    }
}

/// What all directories of a walk share.
#[derive(Debug)]
struct Root {
    handle: OwnedFd,
    path: PathBuf,
    kept: AtomicUsize,
    may_show: filesystem::Shown,
}

/// A directory.
#[derive(Debug)]
pub(crate) struct Node {
    root: Arc<Root>,
    handle: Handle,
    key: Key,
    /// Relative to the root; empty for the root itself.
    relative: PathBuf,
    depth: u64,
    judges: bool,
    rules: Option<Arc<Rules>>,
}

/// A directory's handle, where it is kept.
#[derive(Debug)]
enum Handle {
    Kept(Arc<Kept>),
    OpenedAgain,
}

#[derive(Debug)]
struct Kept {
    handle: OwnedFd,
    root: Arc<Root>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.root.kept.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Node {
    pub(super) fn root(opened: Opened, protected: &Protected, ignoring: Ignoring) -> Arc<Self> {
        let judges = protected.reaches_below(&opened.path);
        let rules = match ignoring {
            Ignoring::Nothing => None,
            Ignoring::Gitignored => Some(Rules::above(&opened.path)),
        };
        let handle = OwnedFd::from(opened.file);
        let may_show = filesystem::Shown::below(&handle);
        let root = Root { handle, path: opened.path, kept: AtomicUsize::new(0), may_show };
        Arc::new(Node {
            root: Arc::new(root),
            handle: Handle::OpenedAgain,
            key: Key::default(),
            relative: PathBuf::new(),
            depth: 1,
            judges,
            rules,
        })
    }

    /// Opens a directory of this one; none where it is left out.
    pub(super) fn enter(self: &Arc<Self>, name: &[u8]) -> io::Result<Option<Arc<Self>>> {
        let handle = self.open_as(name, OFlag::O_DIRECTORY)?;
        if !self.root.may_show.shows(&handle) {
            return Ok(None);
        }
        // Counted before it is known whether there is room, so that workers together don't overshoot.
        let handle = if self.root.kept.fetch_add(1, Ordering::Relaxed) < KEPT_HANDLES {
            Handle::Kept(Arc::new(Kept { handle, root: Arc::clone(&self.root) }))
        } else {
            self.root.kept.fetch_sub(1, Ordering::Relaxed);
            Handle::OpenedAgain
        };
        Ok(Some(Arc::new(self.child(name, handle))))
    }

    fn child(&self, name: &[u8], handle: Handle) -> Self {
        Node {
            root: Arc::clone(&self.root),
            handle,
            key: self.key.below(name),
            relative: self.relative.join(OsStr::from_bytes(name)),
            depth: self.depth + 1,
            judges: self.judges,
            rules: self.rules.clone(),
        }
    }

    /// Opens a file of this directory for reading, without following a link and without waiting.
    pub(crate) fn open(&self, name: &[u8]) -> io::Result<File> {
        self.open_as(name, OFlag::O_NONBLOCK | OFlag::O_NOCTTY).map(File::from)
    }

    fn open_as(&self, name: &[u8], flags: OFlag) -> io::Result<OwnedFd> {
        let flags = flags | OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match &self.handle {
            Handle::Kept(kept) => Ok(openat(kept.handle.as_fd(), name, flags, Mode::empty())?),
            Handle::OpenedAgain if self.relative.as_os_str().is_empty() => {
                Ok(openat(self.root.handle.as_fd(), name, flags, Mode::empty())?)
            }
            Handle::OpenedAgain => {
                let path = self.relative.join(OsStr::from_bytes(name));
                filesystem::open_beneath(&self.root.handle, &path, flags)
            }
        }
    }

    /// The directory's entries, sorted by name.
    pub(super) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut directory = Dir::from_fd(self.open_as(b".", OFlag::O_DIRECTORY)?)?;
        let mut entries = Vec::new();
        let mut unknown = false;
        for entry in directory.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                Some(Type::File) => Some(Kind::File),
                Some(Type::Directory) => Some(Kind::Directory),
                Some(Type::Symlink) => Some(Kind::Symlink),
                Some(Type::Fifo | Type::CharacterDevice | Type::BlockDevice | Type::Socket) => {
                    Some(Kind::Other)
                }
                None => None,
            };
            unknown = unknown || kind.is_none();
            entries.push((Box::from(name), kind));
        }
        let handle = if unknown { Some(self.open_as(b".", OFlag::O_DIRECTORY)?) } else { None };
        let mut entries: Vec<Entry> = entries
            .into_iter()
            .map(|(name, kind)| {
                let kind = kind.or_else(|| kind_of(handle.as_ref()?, &name)).unwrap_or(Kind::Other);
                Entry { name, kind }
            })
            .collect();
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// This directory with the rules of its own `.gitignore`, where they count and there is one.
    pub(super) fn with_rules(self: &Arc<Self>, entries: &[Entry]) -> Arc<Self> {
        let Some(rules) = &self.rules else { return Arc::clone(self) };
        let named = |entry: &&Entry| &*entry.name == b".gitignore" && entry.kind == Kind::File;
        let Some(file) = entries.iter().find(named).and_then(|entry| self.open(&entry.name).ok()) else {
            return Arc::clone(self);
        };
        let rules = Rules::of(&self.path(), &file, Some(Arc::clone(rules)));
        Arc::new(Node {
            root: Arc::clone(&self.root),
            handle: match &self.handle {
                Handle::Kept(kept) => Handle::Kept(Arc::clone(kept)),
                Handle::OpenedAgain => Handle::OpenedAgain,
            },
            key: self.key.clone(),
            relative: self.relative.clone(),
            depth: self.depth,
            judges: self.judges,
            rules: Some(rules),
        })
    }

    pub(super) fn ignores(&self, entry: &Entry) -> bool {
        self.rules
            .as_ref()
            .is_some_and(|rules| rules.ignores(&self.path_of(entry), entry.kind == Kind::Directory))
    }

    /// Whether something below may be protected by its name.
    pub(super) const fn judges(&self) -> bool {
        self.judges
    }

    /// Directories deep; 1 is the root.
    pub(super) const fn depth(&self) -> u64 {
        self.depth
    }

    /// The place of a name in it.
    pub(crate) fn key_of(&self, name: &[u8]) -> Key {
        self.key.below(name)
    }

    /// Canonical absolute path.
    pub(crate) fn path(&self) -> PathBuf {
        if self.relative.as_os_str().is_empty() {
            self.root.path.clone()
        } else {
            self.root.path.join(&self.relative)
        }
    }

    /// Canonical absolute path of an entry.
    pub(crate) fn path_of(&self, entry: &Entry) -> PathBuf {
        self.path().join(OsStr::from_bytes(&entry.name))
    }

    /// Path relative to the walk's root.
    pub(crate) fn relative(&self) -> &Path {
        &self.relative
    }

    /// Metadata of an entry, of the link itself where it is one.
    pub(crate) fn stat(&self, name: &[u8]) -> io::Result<nix::libc::stat> {
        match &self.handle {
            Handle::Kept(kept) => Ok(fstatat(kept.handle.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW)?),
            Handle::OpenedAgain => {
                let handle = self.open_as(b".", OFlag::O_DIRECTORY)?;
                Ok(fstatat(handle.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW)?)
            }
        }
    }

    /// Where an entry that is a symbolic link leads.
    pub(crate) fn link_target(&self, name: &[u8]) -> io::Result<PathBuf> {
        let handle = self.open_as(b".", OFlag::O_DIRECTORY)?;
        Ok(nix::fcntl::readlinkat(handle.as_fd(), name)?.into())
    }
}

fn kind_of(directory: &OwnedFd, name: &[u8]) -> Option<Kind> {
    let stat = fstatat(directory.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    Some(match kind {
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFDIR => Kind::Directory,
        SFlag::S_IFLNK => Kind::Symlink,
        _ => Kind::Other,
    })
}
