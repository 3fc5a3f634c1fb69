//! The contents of files that a session and its sub-sessions keep, read only: one file per content, named by its SHA-256.
//!
//! The workers write them and drop the oldest; here they are found, wherever they stand, and held against their names.
//! Invariant: a content is given only if it is what its name says.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use protocol::{
    digest::Digest,
    id::{SessionId, SubsessionId},
    place::VERSIONS,
};

use super::changes::Author;

/// Where a session keeps its sub-sessions' folders.
const SUBSESSIONS: &str = "subsessions";

/// Why there is no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It is not kept, or not any more.
    Gone,
    /// What is kept under its name is something else, or can't be read.
    Damaged,
}

/// One folder of contents and whose they are.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    /// Who put them there.
    pub(crate) author: Author,
    folder: PathBuf,
}

/// What stands on a shelf.
#[derive(Debug, Default)]
pub(crate) struct Stock {
    /// Contents that are what their names say.
    pub(crate) whole: BTreeSet<Digest>,
    /// Names under which something else is kept.
    pub(crate) damaged: BTreeSet<Digest>,
    /// Bytes of all that is there.
    pub(crate) bytes: u64,
}

impl Stock {
    /// Whether it has anything of this name.
    pub(crate) fn has(&self, digest: Digest) -> bool {
        self.damaged.contains(&digest) || self.whole.contains(&digest)
    }
}

/// The shelves of one session: its own first.
#[derive(Debug, Clone)]
pub(crate) struct Blobs(Vec<Shelf>);

impl Blobs {
    /// Those of a session in this state directory.
    pub(crate) fn of_session(state: &Path, session: SessionId) -> Self {
        let own = state.join("sessions").join(session.to_string());
        let mut shelves = vec![Shelf { author: Author::Session, folder: own.join(VERSIONS) }];
        let subsessions = own.join(SUBSESSIONS);
        let mut ids: Vec<SubsessionId> = fs::read_dir(&subsessions)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        ids.sort_unstable();
        shelves.extend(ids.into_iter().map(|id| Shelf {
            author: Author::Subsession(id),
            folder: subsessions.join(id.to_string()).join(VERSIONS),
        }));
        Self(shelves)
    }

    /// The shelves.
    pub(crate) fn shelves(&self) -> &[Shelf] {
        &self.0
    }

    /// A content, from whichever shelf has it. Blocks.
    ///
    /// # Errors
    /// Where no shelf has it as it should be.
    pub(crate) fn read(&self, digest: Digest) -> Result<Vec<u8>, Lost> {
        let mut lost = Lost::Gone;
        for shelf in &self.0 {
            match fs::read(shelf.path(digest)) {
                Ok(content) if Digest::of(&content) == digest => return Ok(content),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(_) | Err(_) => lost = Lost::Damaged,
            }
        }
        Err(lost)
    }

    /// The file that keeps a content; none where no shelf has one. What it holds is not looked at.
    pub(crate) fn place(&self, digest: Digest) -> Option<PathBuf> {
        self.0.iter().map(|shelf| shelf.path(digest)).find(|path| path.is_file())
    }
}

impl Shelf {
    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(digest.to_string())
    }

    /// Reads everything on it. Blocks.
    pub(crate) fn stock(&self) -> Stock {
        let mut stock = Stock::default();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let Some(digest) = entry.file_name().to_str().and_then(|name| name.parse::<Digest>().ok()) else {
                continue;
            };
            stock.bytes += entry.metadata().map_or(0, |found| found.len());
            match fs::read(entry.path()) {
                Ok(content) if Digest::of(&content) == digest => stock.whole.insert(digest),
                Ok(_) | Err(_) => stock.damaged.insert(digest),
            };
        }
        stock
    }
}
