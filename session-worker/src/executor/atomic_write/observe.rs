//! What stands at a target now, without changing or following anything.

use std::{ffi::OsStr, fs::File, io::Read};

use protocol::digest::{Digest, Hasher};

use super::refusal::{OtherKind, Refusal};
use super::target::{Root, Target};
use super::walk;

/// Bytes that are read at once.
const PIECE: usize = 128 * 1024;

/// What stands at a target now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Observed {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Digest of its content.
        sha256: Digest,
        /// Its size in bytes.
        bytes: u64,
    },
    /// Something else.
    Other(OtherKind),
}

/// Looks at a target without changing or following anything. Files of any size are hashed.
///
/// # Errors
/// [`Refusal`]: the root was replaced, a link is in the way, or the system denies the look.
pub(crate) fn observe(root: &Root, target: &Target) -> Result<Observed, Refusal> {
    root.check_in_place()?;
    let walked = walk::walk(root, target)?;
    if !walked.is_whole(target) {
        return Ok(Observed::Absent);
    }
    observe_at(walked.last(root), target.name()).map_err(|source| Refusal::System {
        attempt: "looking at",
        path: target.absolute().to_owned(),
        source,
    })
}

/// Looks at what has this name in the directory.
pub(super) fn observe_at(directory: &File, name: &OsStr) -> std::io::Result<Observed> {
    let Some(stat) = walk::stat_at(directory, name)? else { return Ok(Observed::Absent) };
    if let Some(kind) = walk::kind_of(&stat) {
        return Ok(Observed::Other(kind));
    }
    let mut file = walk::open_file(directory, name)?;
    let (sha256, bytes) = hash(&mut file)?;
    Ok(Observed::File { sha256, bytes })
}

/// Whether everything from here to the end is these bytes. Several times as fast as their digest.
pub(super) fn holds(file: &mut File, mut expected: &[u8]) -> std::io::Result<bool> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(expected.is_empty());
        }
        let Some(rest) = expected.strip_prefix(&piece[..read]) else { return Ok(false) };
        expected = rest;
    }
}

/// The digest of everything from here to the end, and how much that is.
pub(super) fn hash(file: &mut File) -> std::io::Result<(Digest, u64)> {
    let mut hasher = Hasher::default();
    let mut piece = vec![0; PIECE];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok((hasher.finish(), bytes));
        }
        hasher.update(&piece[..read]);
        bytes += read as u64;
    }
}
