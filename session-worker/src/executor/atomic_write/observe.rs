//! What recovery sees of a write: the file as it is now, and what that says.
//!
//! Invariant: [`resolve`] is pure: the record and the observation decide, nothing else.

use std::{ffi::OsStr, fs::File, io::Read, os::unix::fs::MetadataExt};

use nix::unistd::UnlinkatFlags;
use protocol::{
    action::{PreparedWrite, Resolution},
    digest::{Digest, Hasher},
};

use super::refusal::{OtherKind, Refusal};
use super::target::{Root, Target};
use super::temp_name::TempName;
use super::walk;

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
        /// Its inode.
        inode: u64,
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
    let inode = file.metadata()?.ino();
    let (sha256, bytes) = hash(&mut file)?;
    Ok(Observed::File { sha256, inode, bytes })
}

/// The digest of everything from here to the end, and how much that is.
pub(super) fn hash(file: &mut File) -> std::io::Result<(Digest, u64)> {
    let mut hasher = Hasher::default();
    let mut piece = vec![0; 128 * 1024];
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

/// Whether a recorded write that has no receipt happened.
pub(crate) fn resolve(write: &PreparedWrite, observed: Observed) -> Resolution {
    match observed {
        Observed::File { sha256, .. } if sha256 == write.after => Resolution::Applied,
        Observed::File { sha256, .. } if Some(sha256) == write.before => Resolution::NotApplied,
        Observed::Absent if write.before.is_none() => Resolution::NotApplied,
        Observed::File { .. } | Observed::Absent | Observed::Other(_) => Resolution::Indeterminate,
    }
}

/// What was done about the staged file of an action that has no receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub(crate) enum CleanedUp {
    /// There was none.
    Nothing,
    /// It was removed.
    Removed,
    /// Something is there that neither the action nor its file explains; it is kept, under that name.
    Kept(String),
}

/// Removes what a write left that died before its receipt: looks in every directory on the way to the target, since
/// the staged file is in the one that was innermost then.
///
/// `write` is the record where there is one. Without it nothing but the staged file itself can have the name; with it
/// the name may hold what stood at the target, and is removed only if that is the recorded content before or after, or
/// if the target was never touched.
///
/// # Errors
/// [`Refusal`], as [`observe`].
pub(crate) fn clean_up(
    root: &Root,
    (target, name): (&Target, &TempName),
    write: Option<&PreparedWrite>,
) -> Result<CleanedUp, Refusal> {
    let now = observe(root, target)?;
    let walked = walk::walk(root, target)?;
    let system = |source| Refusal::System {
        attempt: "clearing up beside",
        path: target.absolute().to_owned(),
        source,
    };
    let mut done = CleanedUp::Nothing;
    for directory in &walked.directories {
        let found = observe_at(directory, name.as_os_str()).map_err(system)?;
        let explained = match (found, write) {
            (Observed::Absent, _) => continue,
            (Observed::Other(_), _) => false,
            (Observed::File { .. }, None) => true,
            (Observed::File { sha256, .. }, Some(write)) => {
                sha256 == write.after
                    || Some(sha256) == write.before
                    || resolve(write, now) == Resolution::NotApplied
            }
        };
        if !explained {
            return Ok(CleanedUp::Kept(name.as_str().to_owned()));
        }
        nix::unistd::unlinkat(directory, name.as_os_str(), UnlinkatFlags::NoRemoveDir)
            .map_err(|errno| system(errno.into()))?;
        directory.sync_all().map_err(system)?;
        done = CleanedUp::Removed;
    }
    Ok(done)
}
