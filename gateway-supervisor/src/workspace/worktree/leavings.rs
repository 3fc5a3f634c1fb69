//! What an interrupted making or removing of a worktree left: looked at, and cleared where nothing in it is anybody else's.
//!
//! Invariant: only what carries the session's own names is touched, and only where its branch holds no other commit and its
//! folder no file but the commit's own, whole or cut short.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use protocol::crash;

use super::{
    super::git::{Git, Through},
    GitError, Site, WorktreeError, branch,
};
use crate::supervisor::clear;

/// What git writes into the lock of a worktree that it is making.
const MAKING: &[u8] = b"initializing";

/// What becomes of the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branch {
    /// It is used again.
    Kept,
    /// It goes as well.
    Deleted,
}

/// It is there, at the site's commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found;

/// What is there of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leavings {
    /// Its entries in the repository; git numbers a second one of the same name.
    entries: Vec<PathBuf>,
    /// Its branch.
    pub(super) branch: Option<Found>,
}

fn foreign<T>(what: impl Into<String>) -> Result<T, WorktreeError> {
    Err(WorktreeError::Foreign(what.into()))
}

/// Clears what is there of the worktree: its folder, then its entry, then its branch where that goes as well; so that a look
/// at any moment in between still finds what belongs together.
///
/// # Errors
/// Says what stands there that is not only the gateway's own; then nothing was touched.
pub(super) async fn clear(
    git: &Git,
    common: &Path,
    site: Site<'_>,
    fate: Branch,
) -> Result<Leavings, WorktreeError> {
    let left = look(git, common, site).await?;
    clear::folder(site.folder.to_owned()).await;
    crash::point("supervisor-after-worktree-folder-cleared");
    for entry in &left.entries {
        clear::folder(entry.clone()).await;
    }
    clear::empty_folder(common.join("worktrees")).await;
    branch::unlock(common, &site.reference()).await;
    let stays = std::iter::once(site.folder).chain(left.entries.iter().map(PathBuf::as_path));
    if let Some(stays) = stays.into_iter().find(|place| place.symlink_metadata().is_ok()) {
        return Err(WorktreeError::Wrong(format!(
            "left {} behind, which could not be removed",
            stays.display()
        )));
    }
    crash::point("supervisor-after-worktree-entry-cleared");
    if fate == Branch::Deleted && left.branch.is_some() {
        branch::delete(git, common, site).await?;
    }
    Ok(left)
}

/// What is there, where all of it is the gateway's own.
pub(super) async fn look(git: &Git, common: &Path, site: Site<'_>) -> Result<Leavings, WorktreeError> {
    let reference = site.reference();
    let branch = match git.asked(&["rev-parse", "--verify", "--quiet", &reference]).await? {
        None => None,
        Some(at) if at == site.commit => Some(Found),
        Some(_) => return foreign(format!("the branch {} holds other commits", site.branch)),
    };
    let mut entries = Vec::new();
    for entry in listed(&common.join("worktrees")).map_err(GitError::Io)? {
        if is_own(&entry, site)? {
            in_making(&entry, site)?;
            entries.push(entry);
        } else if head(&entry) == on(&reference) {
            return foreign(format!("the branch {} is checked out in another worktree", site.branch));
        }
    }
    if head(common) == on(&reference) {
        return foreign(format!("the branch {} is checked out in the repository", site.branch));
    }
    match site.folder.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(GitError::Io(error).into()),
        Ok(found) if found.is_dir() => strangers(git, common, site).await?,
        Ok(_) => return foreign(format!("{} is no folder", site.folder.display())),
    }
    Ok(Leavings { entries, branch })
}

fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn content(path: &Path) -> Vec<u8> {
    // What can't be read is not what is looked for.
    fs::read(path).unwrap_or_default().trim_ascii_end().to_vec()
}

fn head(of: &Path) -> Vec<u8> {
    content(&of.join("HEAD"))
}

fn on(reference: &str) -> Vec<u8> {
    format!("ref: {reference}").into_bytes()
}

/// Whether an entry is the worktree's: by the folder that it names, or by its name where it names none yet.
fn is_own(entry: &Path, site: Site<'_>) -> Result<bool, WorktreeError> {
    let (names, own) = (content(&entry.join("gitdir")), site.folder.join(".git"));
    let own = own.as_os_str().as_bytes();
    if names == own {
        return Ok(true);
    }
    let name = |path: &Path| path.file_name().unwrap_or_default().as_bytes().to_vec();
    let rest = name(entry).strip_prefix(name(site.folder).as_slice()).map(<[u8]>::to_vec);
    match rest {
        Some(rest) if !rest.iter().all(u8::is_ascii_digit) => Ok(false),
        None => Ok(false),
        Some(_) if own.starts_with(&names) => Ok(true),
        Some(_) => foreign("the worktree was moved"),
    }
}

/// Whether the entry is one that nobody but the gateway's git used.
fn in_making(entry: &Path, site: Site<'_>) -> Result<(), WorktreeError> {
    let head = head(entry);
    let nowhere = head.iter().all(|byte| *byte == b'0') || head == b"ref: refs/heads/.invalid";
    if !nowhere && head != site.commit.as_bytes() && head != on(&site.reference()) {
        return foreign("the worktree is on another branch or commit");
    }
    if !MAKING.starts_with(&content(&entry.join("locked"))) {
        return foreign("the worktree is locked");
    }
    if listed(&entry.join("modules")).is_ok_and(|modules| !modules.is_empty()) {
        return foreign("submodules are checked out in the worktree");
    }
    Ok(())
}

/// Whether the folder holds nothing but the commit's own files, whole or cut short. It is compared with an index of its own,
/// so that it does not matter how far the worktree's came.
async fn strangers(git: &Git, common: &Path, site: Site<'_>) -> Result<(), WorktreeError> {
    let beside = |what: &str| {
        let mut name = OsString::from(".");
        name.push(site.folder.file_name().unwrap_or_default());
        name.push(what);
        site.folder.with_file_name(name)
    };
    let aside = Aside { index: beside(".index"), whole: beside(".whole") };
    let own = [aside.index.clone(), beside(".index.lock"), aside.whole.clone()];
    for stale in own.clone() {
        clear::folder(stale).await;
    }
    let found = compared((git, common), site, &aside).await;
    for mine in own {
        clear::folder(mine).await;
    }
    match found? {
        None => Ok(()),
        Some(stranger) => foreign(format!(
            "{} holds {stranger:?}, which is not what the commit has there",
            site.folder.display()
        )),
    }
}

/// What is used beside the folder while that is looked at.
#[derive(Debug)]
struct Aside {
    index: PathBuf,
    whole: PathBuf,
}

async fn compared(
    (git, common): (&Git, &Path),
    site: Site<'_>,
    aside: &Aside,
) -> Result<Option<PathBuf>, GitError> {
    let git = git.through(Through { repository: common, files: site.folder, index: &aside.index }).await?;
    git.run(&["read-tree", site.commit]).await?;
    let everything = ["--untracked-files=all", "--ignored=matching", "--ignore-submodules=all"];
    for line in git.status(&everything).await?.iter().filter(|line| line.len() > 3) {
        let path = Path::new(OsStr::from_bytes(&line[3..]));
        let own = match line[1] {
            // As in the commit, or not there.
            b' ' | b'D' => true,
            b'M' => cut_short(&git, (site, aside), path).await?,
            _ => false,
        };
        if !own {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

/// Whether a file is the beginning of what git would write there, as a git that was killed leaves it, or what a machine that
/// went down made of it: nothing but zeros from some place on.
async fn cut_short(git: &Git, (site, aside): (Site<'_>, &Aside), path: &Path) -> Result<bool, GitError> {
    let (file, whole) = (site.folder.join(path), aside.whole.join(path));
    if !file.symlink_metadata()?.is_file() {
        return Ok(false);
    }
    // Git itself converts: ends of lines, encodings.
    let mut prefix = OsString::from("--prefix=");
    prefix.push(&aside.whole);
    prefix.push("/");
    let arguments = [OsStr::new("checkout-index"), OsStr::new("--force"), &prefix, OsStr::new("--")];
    git.run(&[&arguments[..], &[path.as_os_str()]].concat()).await?;
    let compared = tokio::task::spawn_blocking(move || begins(File::open(file)?, File::open(whole)?));
    Ok(compared.await.unwrap_or_else(|error| Err(io::Error::other(error)))?)
}

fn begins(found: impl Read, whole: impl Read) -> io::Result<bool> {
    let mut whole = BufReader::new(whole).bytes();
    let mut same = true;
    for byte in BufReader::new(found).bytes() {
        let byte = byte?;
        same = same && whole.next().transpose()? == Some(byte);
        if !same && byte != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_told_from_a_change() {
        for (found, own) in [
            (&b""[..], true),
            (b"on", true),
            (b"one\n", true),
            (b"one\n\0\0", true),
            (b"on\0\0", true),
            (b"\0\0\0\0\0\0", true),
            (b"one\nx", false),
            (b"onx", false),
            (b"o\0e", false),
        ] {
            assert_eq!(begins(found, &b"one\n"[..]).unwrap(), own, "{found:?}");
        }
    }
}
