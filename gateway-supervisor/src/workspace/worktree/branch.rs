//! The end of a worktree's branch.
//!
//! Git deletes a branch under a lock that all branches share, and one that is killed there leaves a lock that stops its owner's
//! own git. So a branch that stands in a file of its own, as the gateway's does until its owner packs it, is deleted under
//! its own lock alone.
//!
//! Invariant: what a kill leaves here carries the branch's own name.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{super::git::Git, GitError, Site, WorktreeError};
use crate::supervisor::clear;

/// A branch in a file of its own.
struct Loose {
    file: PathBuf,
    log: PathBuf,
    lock: PathBuf,
}

impl Loose {
    /// The branch, where it stands in a file of its own and nowhere else.
    fn of(common: &Path, reference: &str) -> io::Result<Option<Self>> {
        let at = |folder: &Path| folder.join(reference);
        let file = at(common);
        let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
        let packed = match fs::read(common.join("packed-refs")) {
            Ok(packed) => packed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let name = format!(" {reference}");
        let is_packed = packed.split(|byte| *byte == b'\n').any(|line| line.ends_with(name.as_bytes()));
        let (log, lock) = (at(&common.join("logs")), common.join(format!("{reference}.lock")));
        Ok((is_file && !is_packed).then_some(Self { file, log, lock }))
    }
}

/// Clears the lock that a git, or a supervisor, left that was killed while it wrote or deleted the branch: no other git would
/// ever write that branch.
pub(super) async fn unlock(common: &Path, reference: &str) {
    clear::file(common.join(format!("{reference}.lock"))).await;
}

/// Deletes the branch, where it still stands at the site's commit. A lock of it must not be there.
///
/// # Errors
/// Where it stands elsewhere by now, or can't be deleted.
pub(super) async fn delete(git: &Git, common: &Path, site: Site<'_>) -> Result<(), WorktreeError> {
    let reference = site.reference();
    if let Some(loose) = Loose::of(common, &reference).map_err(GitError::Io)? {
        File::create_new(&loose.lock).map_err(GitError::Io)?;
        if fs::read(&loose.file).map_err(GitError::Io)?.trim_ascii_end() == site.commit.as_bytes() {
            clear::file(loose.log.clone()).await;
            clear::file(loose.file.clone()).await;
        }
        clear::file(loose.lock).await;
        for name in [&loose.log, &loose.file] {
            // Git removes the folder of its last branch as well; `refs/heads` itself stays.
            let folder = name.parent().filter(|folder| !folder.ends_with("refs/heads"));
            if let Some(folder) = folder {
                clear::empty_folder(folder.to_owned()).await;
            }
        }
    }
    // Packed, kept in tables, or packed in this very moment.
    if git.asked(&["rev-parse", "--verify", "--quiet", &reference]).await?.is_some() {
        git.run(&["update-ref", "-d", &reference, site.commit]).await?;
    }
    Ok(())
}
