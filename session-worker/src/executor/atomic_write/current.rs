//! What stands at a target now, read through one handle.
//!
//! Invariant: the bytes are one state of the file: it did not change while it was read.

use std::{
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

use nix::{fcntl::AtFlags, unistd::AccessFlags};
use protocol::digest::Digest;
use sandbox_profiles::{Judgement, Protected};

use super::refusal::Refusal;
use super::target::{Identity, Root, Target};
use super::walk::{self, Walked};
use crate::executor::{edit::MAX_TEXT_BYTES, versions::Content};

/// How often a file that changes while it is read is read again.
const READ_ATTEMPTS: usize = 3;

/// What stands at a target, and where.
#[derive(Debug)]
pub(crate) struct Current<'a> {
    pub(super) root: &'a Root,
    pub(super) target: &'a Target,
    pub(super) walked: Walked,
    pub(super) seen: Option<Seen>,
}

/// A file's content and what it was when it was read.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) file: File,
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
    pub(super) stamp: Stamp,
    pub(super) metadata: Metadata,
}

/// What is remembered of a file until it is replaced. No handle: the last one of a file that lost its name takes the
/// file with it, which is work for the disk that belongs to the replacing.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: Stamp,
}

impl Seen {
    pub(super) fn remembered(self) -> Remembered {
        Remembered { bytes: self.bytes, stamp: self.stamp }
    }
}

/// What changes when a file changes. Two equal stamps are the same content unless a write came within the
/// file system's clock tick, so a stamp alone never decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: Identity,
    size: u64,
    links: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            identity: Identity::of(metadata),
            size: metadata.size(),
            links: metadata.nlink(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether it is the same file as the other stamp's, and has one name.
    pub(super) fn is_only_name_of(self, other: Self) -> bool {
        self.identity == other.identity && self.links == 1
    }
}

impl<'a> Current<'a> {
    /// Looks at the target: its directories, its protection, and its content where it exists.
    ///
    /// # Errors
    /// [`Refusal`]: the target can't be written by a tool, whatever its new content is.
    pub(crate) fn look(root: &'a Root, target: &'a Target, protected: &Protected) -> Result<Self, Refusal> {
        root.check_in_place()?;
        let walked = walk::walk(root, target)?;
        refuse_protected(root, (target, &walked), protected)?;
        let seen = if walked.is_whole(target) { read(target, walked.last(root), protected)? } else { None };
        Ok(Self { root, target, walked, seen })
    }

    /// The file's canonical absolute path: what the system calls it, however it was spelled. A file that does not
    /// exist has the canonical path of the innermost directory that does, and the rest as it was asked for.
    ///
    /// # Errors
    /// [`Refusal::System`] where the system can't tell.
    pub(crate) fn canonical_path(&self) -> Result<PathBuf, Refusal> {
        let path = match &self.seen {
            Some(seen) => walk::path_of(&seen.file),
            None => walk::path_of(self.walked.last(self.root)).map(|directory| {
                let missing = self.target.parents()[self.walked.depth()..].iter();
                missing.fold(directory, |path, name| path.join(name)).join(self.target.name())
            }),
        };
        let asked = self.target.absolute();
        path.map_err(|source| Refusal::System {
            attempt: "finding the path of",
            path: asked.to_owned(),
            source,
        })
    }

    /// The content; none where the file does not exist.
    pub(crate) fn content(&self) -> Option<Content<'_>> {
        self.seen.as_ref().map(|seen| Content::known(&seen.bytes, seen.digest))
    }
}

/// Asks for the innermost directory, by where it really is, and for the name that follows in it.
fn refuse_protected(
    root: &Root,
    (target, walked): (&Target, &Walked),
    protected: &Protected,
) -> Result<(), Refusal> {
    let directory = walked.last(root);
    let real = walk::path_of(directory).ok();
    let next = target.parents().get(walked.depth()).map_or(target.name(), |name| name.as_os_str());
    let directory_open = matches!(protected.judge_opened(directory), Ok(Judgement::Open));
    // Where a directory can't be found by its handle, nothing can be judged: that is protected.
    let name_open =
        real.is_some_and(|real| matches!(protected.judge(&real.join(next), None), Judgement::Open));
    if directory_open && name_open && matches!(protected.judge(target.absolute(), None), Judgement::Open) {
        return Ok(());
    }
    Err(Refusal::Protected { path: target.absolute().to_owned() })
}

/// Reads the file where there is one and it is one that tools write.
fn read(target: &Target, directory: &File, protected: &Protected) -> Result<Option<Seen>, Refusal> {
    let path = || target.absolute().to_owned();
    let system = |attempt| move |source| Refusal::System { attempt, path: path(), source };
    let Some(stat) = walk::stat_at(directory, target.name()).map_err(system("looking at"))? else {
        return Ok(None);
    };
    // Asked before it is opened: opening a device can do something.
    if let Some(kind) = walk::kind_of(&stat) {
        return Err(Refusal::NotRegular { path: path(), kind });
    }
    let file = walk::open_file(directory, target.name()).map_err(system("opening"))?;
    if !matches!(protected.judge_opened(&file), Ok(Judgement::Open)) {
        return Err(Refusal::Protected { path: path() });
    }
    let seen = read_opened(target, file)?;
    if seen.metadata.nlink() > 1 {
        return Err(Refusal::SeveralLinks { path: path(), links: seen.metadata.nlink() });
    }
    // Renaming would pass over a file's own write permission.
    nix::unistd::faccessat(directory, target.name(), AccessFlags::W_OK, AtFlags::AT_EACCESS)
        .map_err(|errno| system("writing")(errno.into()))?;
    Ok(Some(seen))
}

fn read_opened(target: &Target, mut file: File) -> Result<Seen, Refusal> {
    let path = || target.absolute().to_owned();
    for _ in 0..READ_ATTEMPTS {
        let read = read_once(&mut file);
        let (metadata, bytes) =
            read.map_err(|source| Refusal::System { attempt: "reading", path: path(), source })?;
        let Some(bytes) = bytes else {
            return Err(Refusal::TooLarge { path: path(), bytes: metadata.size(), limit: MAX_TEXT_BYTES });
        };
        let stamp = Stamp::of(&metadata);
        if file.metadata().is_ok_and(|now| Stamp::of(&now) == stamp) {
            let digest = Digest::of(&bytes);
            return Ok(Seen { file, bytes, digest, stamp, metadata });
        }
    }
    Err(Refusal::Stale { path: path(), now: None })
}

/// Reads from the start; no bytes where there are more than allowed.
fn read_once(file: &mut File) -> io::Result<(Metadata, Option<Vec<u8>>)> {
    io::Seek::rewind(file)?;
    let metadata = file.metadata()?;
    let Some(expected) = usize::try_from(metadata.size()).ok().filter(|&size| size <= MAX_TEXT_BYTES) else {
        return Ok((metadata, None));
    };
    // One more, to notice a file that grows while it is read.
    let mut bytes = Vec::with_capacity(expected + 1);
    file.take(MAX_TEXT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let fits = bytes.len() <= MAX_TEXT_BYTES;
    Ok((metadata, fits.then_some(bytes)))
}
