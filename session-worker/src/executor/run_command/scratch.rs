//! The one place where a session's commands write: kept for the session's life, invisible to other sessions, bounded.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sandbox_profiles::AbsolutePath;

/// Largest single file: linking a large program takes a few gigabytes, no build takes more.
pub(super) const LARGEST_FILE: u64 = 16 << 30;

/// Largest total: twenty full builds of a large workspace.
pub(super) const LARGEST_TOTAL: u64 = 64 << 30;

/// Files looked at when the total is taken; beyond them the scratch counts as full.
const MOST_FILES: usize = 4_000_000;

/// A look at the total takes at most a fiftieth of the time.
const SHARE: u32 = 50;
const SHORTEST_PAUSE: Duration = Duration::from_secs(2);

/// The folders in it, by what they are for.
pub(super) const FOLDERS: &[&str] = &[
    "home", "tmp", "cache", "target", "npm", "pip", "go-build", "go-tmp", "gradle", "python", "config",
    "data",
];

#[derive(Debug)]
pub(super) struct Scratch {
    path: AbsolutePath,
}

impl Scratch {
    /// Makes it, private, with its folders; one that is there is kept.
    pub(super) fn make(path: &Path) -> io::Result<Self> {
        let private = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        private(path)?;
        for folder in FOLDERS {
            private(&path.join(folder))?;
        }
        let path = AbsolutePath::new(path.canonicalize()?).map_err(io::Error::other)?;
        Ok(Self { path })
    }

    pub(super) const fn path(&self) -> &AbsolutePath {
        &self.path
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The scratches of other sessions, and a name that makes the walls list what lies beside: a session that starts
    /// later is closed as well.
    pub(super) fn of_others(&self) -> Vec<AbsolutePath> {
        let Some(parent) = self.path.parent() else { return Vec::new() };
        let beside = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
        beside
            .filter(|path| path != self.path.as_path())
            .chain([parent.join(".later")])
            .filter_map(|path| AbsolutePath::new(path).ok())
            .collect()
    }

    /// Bytes on disk of all that is in it.
    fn total(&self) -> u64 {
        let (mut total, mut files) = (0_u64, 0);
        let mut open = vec![self.path.to_path_buf()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                files += 1;
                if files > MOST_FILES {
                    return u64::MAX;
                }
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    open.push(entry.path());
                }
                total = total.saturating_add(metadata.blocks() * 512);
            }
        }
        total
    }
}

/// Looks at the total now and then.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    scratch: &'a Scratch,
    next: Instant,
}

impl<'a> Meter<'a> {
    pub(super) fn of(scratch: &'a Scratch) -> Self {
        Self { scratch, next: Instant::now() + SHORTEST_PAUSE }
    }

    /// Whether the scratch was found over its limit.
    pub(super) fn is_over(&mut self) -> bool {
        let began = Instant::now();
        if began < self.next {
            return false;
        }
        let over = self.scratch.total() > LARGEST_TOTAL;
        self.next = Instant::now() + SHORTEST_PAUSE.max(began.elapsed() * SHARE);
        over
    }
}
