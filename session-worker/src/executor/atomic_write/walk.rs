//! From the root to a file's directory, handle by handle.
//!
//! Invariant: no symbolic link is followed and no `..` is taken: each directory is opened by its one name in
//! the directory before it.

use std::{ffi::OsStr, fs::File, io, path::PathBuf};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    sys::stat::{FileStat, Mode, SFlag},
};

use super::refusal::{OtherKind, Refusal};
use super::target::{Identity, Root, Target};

/// The directories of a target that exist, outermost first; the root is the first.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) directories: Vec<File>,
    pub(super) identities: Vec<Identity>,
}

impl Walked {
    /// How many of the target's parents exist.
    pub(super) fn depth(&self) -> usize {
        self.directories.len() - 1
    }

    /// The innermost directory that exists.
    pub(super) fn last<'a>(&'a self, root: &'a Root) -> &'a File {
        self.directories.last().unwrap_or(root.directory())
    }

    /// Whether every parent of the target exists.
    pub(super) fn is_whole(&self, target: &Target) -> bool {
        self.depth() == target.parents().len()
    }
}

/// Opens the target's directories as far as they exist.
///
/// # Errors
/// A link or something else is in the way, a directory is a repository's own, or the system denies it.
pub(super) fn walk(root: &Root, target: &Target) -> Result<Walked, Refusal> {
    let system = |attempt, path: PathBuf| move |source| Refusal::System { attempt, path, source };
    let first = root.directory().try_clone().map_err(system("opening", root.path().to_owned()))?;
    let identity = Identity::of_file(&first).map_err(system("looking at", root.path().to_owned()))?;
    let mut walked = Walked { directories: vec![first], identities: vec![identity] };
    for (index, name) in target.parents().iter().enumerate() {
        let here = walked.last(root);
        let path = target.directory_at(index + 1);
        let next = match open_directory(here, name) {
            Ok(next) => next,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(source) => return Err(why_no_directory(here, name, (path, source))),
        };
        let identity = Identity::of_file(&next).map_err(system("looking at", path.clone()))?;
        // However the file system compares names: what `.git` names here is not entered by another name.
        if let Ok(Some(git)) = stat_at(here, OsStr::new(".git"))
            && Identity::of_stat(&git) == identity
        {
            return Err(Refusal::IntoGit { path });
        }
        walked.directories.push(next);
        walked.identities.push(identity);
    }
    Ok(walked)
}

/// Opens one directory by its name in another, following nothing.
pub(super) fn open_directory(parent: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(File::from(open_beneath(parent, name, flags)?))
}

/// On Linux the kernel itself refuses to leave the directory, also by a link that it invents.
#[cfg(target_os = "linux")]
fn open_beneath(parent: &File, name: &OsStr, flags: OFlag) -> Result<std::os::fd::OwnedFd, Errno> {
    use nix::fcntl::{OpenHow, ResolveFlag, openat2};

    let resolve =
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    match openat2(parent, name, OpenHow::new().flags(flags).resolve(resolve)) {
        // Kernels before 5.6 don't have it, and some filters forbid it: one component without links is the
        // same walk.
        Err(Errno::ENOSYS | Errno::EPERM) => nix::fcntl::openat(parent, name, flags, Mode::empty()),
        other => other,
    }
}

/// One component, no link followed: that can't leave the directory.
#[cfg(target_os = "macos")]
fn open_beneath(parent: &File, name: &OsStr, flags: OFlag) -> Result<std::os::fd::OwnedFd, Errno> {
    nix::fcntl::openat(parent, name, flags, Mode::empty())
}

fn why_no_directory(parent: &File, name: &OsStr, (path, source): (PathBuf, io::Error)) -> Refusal {
    match stat_at(parent, name) {
        Ok(Some(stat)) if kind_of(&stat) == Some(OtherKind::Symlink) => Refusal::ThroughSymlink { path },
        Ok(Some(stat)) if kind_of(&stat) != Some(OtherKind::Directory) => Refusal::NotADirectory { path },
        Ok(_) | Err(_) => Refusal::System { attempt: "opening the directory", path, source },
    }
}

/// What has this name in the directory, no link followed; `None` where nothing has.
pub(super) fn stat_at(directory: &File, name: &OsStr) -> io::Result<Option<FileStat>> {
    match nix::sys::stat::fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What it is where it is no regular file.
pub(super) fn kind_of(stat: &FileStat) -> Option<OtherKind> {
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    let kinds = [
        (SFlag::S_IFREG, None),
        (SFlag::S_IFDIR, Some(OtherKind::Directory)),
        (SFlag::S_IFLNK, Some(OtherKind::Symlink)),
        (SFlag::S_IFIFO, Some(OtherKind::Fifo)),
        (SFlag::S_IFSOCK, Some(OtherKind::Socket)),
        (SFlag::S_IFCHR, Some(OtherKind::Device)),
        (SFlag::S_IFBLK, Some(OtherKind::Device)),
    ];
    kinds.iter().find(|(flag, _)| *flag == kind).map_or(Some(OtherKind::Unknown), |(_, other)| *other)
}

/// Opens a regular file for reading by its name in a directory, following nothing and waiting for nothing.
pub(super) fn open_file(directory: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    Ok(File::from(nix::fcntl::openat(directory, name, flags, Mode::empty())?))
}

/// Where an opened directory is now.
pub(super) fn path_of(directory: &File) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
    }
    #[cfg(target_os = "macos")]
    {
        let mut path = PathBuf::new();
        nix::fcntl::fcntl(directory, nix::fcntl::FcntlArg::F_GETPATH(&mut path))?;
        Ok(path)
    }
}
