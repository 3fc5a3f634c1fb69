//! Whether a directory suits: the clean top level of a repository with at least one commit, and everything in it at hand.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use super::super::git::{Git, GitError};

/// What a worktree would be made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    /// The commit at HEAD.
    pub(crate) commit: String,
    /// What the owner should know.
    pub(crate) notes: Vec<String>,
}

/// Why no worktree can be made from a directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsuitable {
    /// Not a repository.
    #[error(
        "the directory is not in a git repository; use capability_profile read_only or direct_write, or run `git init` and commit there"
    )]
    NoRepository,
    /// Another user's repository.
    #[error(
        "the repository belongs to another user; its owner, or `git config --global --add safe.directory DIRECTORY`, can allow it"
    )]
    OtherOwner,
    /// A bare repository.
    #[error("the repository is bare: it has no files to work on")]
    Bare,
    /// Below the top level.
    #[error("the directory is not the top level of its repository; pass the top level as working_directory")]
    NotTop,
    /// Inside another's `.git`.
    #[error("the directory is inside a .git folder")]
    InsideGit,
    /// No commit.
    #[error("the repository has no commit yet; commit once")]
    NoCommit,
    /// Uncommitted changes.
    #[error(
        "the repository is not clean ({count} changed or untracked files, such as {first:?}); commit, stash or ignore them"
    )]
    Dirty {
        /// How many.
        count: usize,
        /// The first of them, as `git status` shows it.
        first: String,
    },
    /// A partial clone lacks contents.
    #[error(
        "the repository is a partial clone that lacks {0} objects of its commit; run `git fetch --refetch` or check everything out once"
    )]
    Partial(usize),
    /// The repository's folder belongs to another directory.
    #[error(
        "the repository's own folder stands elsewhere and does not name this directory as its own; pass the directory that it belongs to"
    )]
    Elsewhere,
    /// Every worktree of it would work on the same files.
    #[error(
        "the repository has extensions.worktreeConfig and names one core.worktree for all its worktrees; move that setting to the main one with `git config --worktree core.worktree DIRECTORY` and unset it in .git/config"
    )]
    OneForAll,
    /// A sparse checkout.
    #[error("the repository is a sparse checkout; run `git sparse-checkout disable` first")]
    Sparse,
    /// An operation is under way.
    #[error("a {0} is under way in the repository; finish or abort it")]
    UnderWay(&'static str),
    /// Git failed otherwise.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Where a repository keeps what it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// What belongs to this directory alone.
    own: PathBuf,
    /// What belongs to all its worktrees.
    pub(crate) common: PathBuf,
}

/// Looks at the directory where `git` stands, without changing a byte of it.
///
/// # Errors
/// Says why it does not suit.
pub(crate) async fn examine(git: &Git) -> Result<Base, Unsuitable> {
    let places = repository(git).await?;
    no_operation_under_way(&places.own)?;
    let commit = git
        .asked(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        .await?
        .ok_or(Unsuitable::NoCommit)?;
    let sparse = git.asked(&["config", "--type=bool", "--get", "core.sparseCheckout"]).await?;
    if sparse.as_deref() == Some("true") {
        return Err(Unsuitable::Sparse);
    }
    if leads_all(git, &places.common).await? {
        return Err(Unsuitable::OneForAll);
    }
    // Before anything compares contents: nothing is ever fetched.
    complete(git, &commit).await?;
    clean(git).await?;
    let notes = notes(git, &commit).await?;
    Ok(Base { commit, notes })
}

/// The repository's folders, where `git` stands at its top level and they are its own.
pub(super) async fn repository(git: &Git) -> Result<Places, Unsuitable> {
    let source = git.directory();
    let asked = git.run(&["rev-parse", "--is-bare-repository", "--is-inside-git-dir"]).await;
    let told = asked.map_err(|error| match error {
        GitError::Refused { said, .. } if said.contains("dubious ownership") => Unsuitable::OtherOwner,
        GitError::Refused { said, .. } if said.contains("not a git repository") => Unsuitable::NoRepository,
        GitError::Refused { .. } | GitError::Missing | GitError::Io(_) | GitError::Slow | GitError::Left => {
            Unsuitable::Git(error)
        }
    })?;
    match told.as_slice() {
        b"false\nfalse\n" => {}
        bare if bare.starts_with(b"true") => return Err(Unsuitable::Bare),
        _ => return Err(Unsuitable::InsideGit),
    }
    let top = git.path(&["rev-parse", "--show-toplevel"]).await?;
    // `core.worktree` can point anywhere; only what is asked for is worked on.
    if !same(&top, source).map_err(GitError::Io)? {
        return Err(Unsuitable::NotTop);
    }
    let own = git.path(&["rev-parse", "--absolute-git-dir"]).await?;
    let common = git.path(&["rev-parse", "--path-format=absolute", "--git-common-dir"]).await?;
    let places = Places {
        own: own.canonicalize().map_err(GitError::Io)?,
        common: common.canonicalize().map_err(GitError::Io)?,
    };
    if belongs(git, source, &places).await? { Ok(places) } else { Err(Unsuitable::Elsewhere) }
}

/// Whether the repository's folders say themselves that they are those of `source`: a `.git` can name any folder, and so
/// another repository of the same user.
async fn belongs(git: &Git, source: &Path, places: &Places) -> Result<bool, GitError> {
    let marker = source.join(".git");
    let kind = marker.symlink_metadata()?.file_type();
    if kind.is_dir() {
        return Ok(same(&marker, &places.own)? && places.own == places.common);
    }
    if !kind.is_file() {
        return Ok(false);
    }
    if places.own == places.common {
        // A submodule's names its directory, and that was found to be this one.
        return Ok(git.asked(&["config", "--get", "core.worktree"]).await?.is_some());
    }
    let back = fs::read(places.own.join("gitdir"))?;
    let back = PathBuf::from(OsString::from_vec(back.trim_ascii_end().to_vec()));
    Ok(places.own.parent() == Some(&places.common.join("worktrees"))
        && same(&places.own.join(back), &marker)?)
}

/// Whether the shared configuration names the files of each worktree. Git believes it only where worktrees have one of their own.
async fn leads_all(git: &Git, common: &Path) -> Result<bool, GitError> {
    let own = git.asked(&["config", "--type=bool", "--get", "extensions.worktreeConfig"]).await?;
    if own.as_deref() != Some("true") {
        return Ok(false);
    }
    let config = common.join("config");
    let shared = ["config".as_ref(), "--file".as_ref(), config.as_os_str()];
    let question = ["--includes", "--get", "core.worktree"].map(OsStr::new);
    Ok(git.asked(&[&shared[..], &question].concat()).await?.is_some())
}

fn same(a: &Path, b: &Path) -> io::Result<bool> {
    Ok(a.canonicalize()? == b.canonicalize()?)
}

pub(super) fn no_operation_under_way(folder: &Path) -> Result<(), Unsuitable> {
    for (file, operation) in [
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("BISECT_LOG", "bisect"),
    ] {
        if folder.join(file).exists() {
            return Err(Unsuitable::UnderWay(operation));
        }
    }
    Ok(())
}

async fn clean(git: &Git) -> Result<(), Unsuitable> {
    // What a submodule's own files look like is not looked at: that would start a git with the submodule's configuration.
    let changes = git.status(&["--untracked-files=normal", "--ignore-submodules=dirty"]).await?;
    match changes.first() {
        None => Ok(()),
        Some(first) => Err(Unsuitable::Dirty {
            first: String::from_utf8_lossy(first).into_owned(),
            count: changes.len(),
        }),
    }
}

async fn complete(git: &Git, commit: &str) -> Result<(), Unsuitable> {
    let promisors =
        git.asked(&["config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$"]).await?;
    if promisors.is_none() {
        return Ok(());
    }
    let objects = git.run(&["rev-list", "--objects", "--no-walk", "--missing=print", commit]).await?;
    match objects.split(|byte| *byte == b'\n').filter(|line| line.first() == Some(&b'?')).count() {
        0 => Ok(()),
        missing => Err(Unsuitable::Partial(missing)),
    }
}

async fn notes(git: &Git, commit: &str) -> Result<Vec<String>, GitError> {
    let mut notes = Vec::new();
    let tree = git.run(&["ls-tree", "-r", "-z", "--full-tree", commit]).await?;
    let entries = || tree.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let submodules = entries().filter(|entry| entry.starts_with(b"160000 ")).count();
    if submodules > 0 {
        notes.push(format!("{submodules} submodules are not checked out in the worktree"));
    }
    let mut names = Vec::new();
    for entry in entries().filter(|entry| !entry.starts_with(b"160000 ")) {
        if let Some(tab) = entry.iter().position(|byte| *byte == b'\t') {
            names.extend_from_slice(&entry[tab + 1..]);
            names.push(0);
        }
    }
    let attributes = git.run_with(&["check-attr", "-z", "--stdin", "filter"], &names).await?;
    // Each answer is three fields: path, attribute, value.
    let fields: Vec<&[u8]> = attributes.split(|byte| *byte == 0).collect();
    let filtered: Vec<&[u8]> = fields
        .chunks_exact(3)
        .map(|answer| answer[2])
        .filter(|value| !matches!(*value, b"unspecified" | b"unset"))
        .collect();
    if let Some(first) = filtered.first() {
        notes.push(format!(
            "{} files have a content filter (such as {}) and stand in the worktree as git stores them, because no filter is run",
            filtered.len(),
            String::from_utf8_lossy(first)
        ));
    }
    Ok(notes)
}
