//! What an interrupted write left beside its file: the staged content, and directories that it had begun to make.
//!
//! Invariant: directories are walked by handle from the root; no link is followed.
//! Invariant: only the gateway's own name for the action is removed, and only where the record explains what it holds.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    sys::stat::{Mode, SFlag},
    unistd::UnlinkatFlags,
};
use protocol::{
    action::{Effect, PreparedRemoval, PreparedWrite, Resolution, temporary_name},
    digest::{Digest, Hasher},
    id::ActionId,
};

/// A write that has no receipt.
#[derive(Debug, Clone)]
pub(crate) struct Leftover {
    /// The action.
    pub(crate) action_id: ActionId,
    /// Its file: relative to the root, or as it was asked for.
    pub(crate) path: PathBuf,
    /// What it prepared, where it came so far.
    pub(crate) prepared: Option<PreparedChange>,
}

/// A change of a file that was prepared.
#[derive(Debug, Clone)]
pub(crate) enum PreparedChange {
    /// A new content, staged beside the file.
    Write(PreparedWrite),
    /// The file is moved aside and goes.
    Removal(PreparedRemoval),
}

impl PreparedChange {
    /// The change of a file that an effect is; none where it is another effect.
    pub(crate) fn of(effect: &Effect) -> Option<Self> {
        match effect {
            Effect::Write(write) => Some(Self::Write(write.clone())),
            Effect::Remove(removal) => Some(Self::Removal(removal.clone())),
            Effect::Command { .. } | Effect::Subsession { .. } => None,
        }
    }

    /// The file, relative to the root.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Write(write) => &write.path,
            Self::Removal(removal) => &removal.path,
        }
    }

    /// The directories that have to go: those that a write made in vain, or those that went with the file.
    fn directories(&self, found: Option<Resolution>) -> &[PathBuf] {
        match self {
            Self::Write(write) if found == Some(Resolution::NotApplied) => &write.made_directories,
            Self::Removal(removal) if found == Some(Resolution::Applied) => &removal.directories,
            Self::Write(_) | Self::Removal(_) => &[],
        }
    }

    /// Whether the record explains that its temporary name holds this content.
    fn explains(&self, found: Option<Resolution>, content: Digest) -> bool {
        match self {
            Self::Write(write) => {
                found == Some(Resolution::NotApplied)
                    || content == write.after
                    || Some(content) == write.before
            }
            // What was moved aside was not compared yet.
            Self::Removal(removal) => content == removal.before,
        }
    }
}

/// Removes what a write left. `found` is what became of the file. Gives the name of what is kept because nothing explains
/// it: another program's version that came out of an exchange.
pub(crate) fn clear(root: &Path, left: &Leftover, found: Option<Resolution>) -> io::Result<Option<String>> {
    let Some(relative) = below(root, &left.path) else { return Ok(None) };
    let names: Option<Vec<&OsStr>> = relative.components().map(normal).collect();
    let Some((_, parents)) = names.as_deref().and_then(<[_]>::split_last) else { return Ok(None) };
    let temporary = temporary_name(left.action_id);
    let mut directory = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits())
        .open(root)?;
    let mut kept = clear_in(&directory, &temporary, (left, found))?;
    for name in parents {
        match step(&directory, name) {
            Ok(next) => directory = next,
            Err(_) => break,
        }
        kept |= clear_in(&directory, &temporary, (left, found))?;
    }
    // A file in its place is not durable before its directory is.
    directory.sync_all()?;
    for made in left.prepared.iter().flat_map(|change| change.directories(found)).rev() {
        remove_empty(root, made);
    }
    Ok(kept.then_some(temporary))
}

/// The path below the root, which is recognised by what it is where it is spelled otherwise.
fn below<'p>(root: &Path, path: &'p Path) -> Option<&'p Path> {
    if path.is_relative() {
        return Some(path);
    }
    if let Ok(relative) = path.strip_prefix(root) {
        return Some(relative);
    }
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let own = identity(root)?;
    let same = path.ancestors().skip(1).find(|ancestor| identity(ancestor) == Some(own))?;
    path.strip_prefix(same).ok()
}

fn normal(part: Component<'_>) -> Option<&OsStr> {
    match part {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    }
}

fn step(directory: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(File::from(nix::fcntl::openat(directory, name, flags, Mode::empty())?))
}

/// Removes the staged file in one directory. True where something is kept.
fn clear_in(
    directory: &File,
    name: &str,
    (left, found): (&Leftover, Option<Resolution>),
) -> io::Result<bool> {
    let stat = match nix::sys::stat::fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::ENOENT) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    };
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Ok(true);
    }
    let explained = match &left.prepared {
        // Before its record nothing but the staged file itself has the name.
        None => true,
        Some(change) => change.explains(found, digest(directory, name)?),
    };
    if !explained {
        return Ok(true);
    }
    nix::unistd::unlinkat(directory, name, UnlinkatFlags::NoRemoveDir)?;
    directory.sync_all()?;
    Ok(false)
}

fn digest(directory: &File, name: &str) -> io::Result<Digest> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mut file = File::from(nix::fcntl::openat(directory, name, flags, Mode::empty())?);
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            got => hasher.update(&buffer[..got]),
        }
    }
}

/// Removes a directory that the write had made, where nothing is in it.
fn remove_empty(root: &Path, relative: &Path) {
    let removed = || -> io::Result<()> {
        let mut directory = File::open(root)?;
        let names: Vec<&OsStr> = relative.components().filter_map(normal).collect();
        let Some((last, parents)) = names.split_last() else { return Ok(()) };
        for name in parents {
            directory = step(&directory, name)?;
        }
        nix::unistd::unlinkat(&directory, *last, UnlinkatFlags::RemoveDir)?;
        directory.sync_all()
    };
    if let Err(error) = removed() {
        tracing::debug!(%error, "a directory that an interrupted write was to make is not there, or in use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        folder: tempfile::TempDir,
        left: Leftover,
    }

    impl Scene {
        /// A write of `a/b/file` that was prepared, from "old" to "new".
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let action_id = ActionId::mint();
            let write = PreparedWrite {
                path: "a/b/file".into(),
                before: Some(Digest::of(b"old")),
                after: Digest::of(b"new"),
                bytes: (3, 3),
                temporary: temporary_name(action_id),
                made_directories: vec!["a".into(), "a/b".into()],
            };
            fs::create_dir_all(folder.path().join("a/b")).unwrap();
            let (path, prepared) = (write.path.clone(), Some(PreparedChange::Write(write)));
            Self { folder, left: Leftover { action_id, path, prepared } }
        }

        fn root(&self) -> PathBuf {
            self.folder.path().canonicalize().unwrap()
        }

        fn temporary(&self, directory: &str) -> PathBuf {
            self.root().join(directory).join(temporary_name(self.left.action_id))
        }

        fn clear(&self, found: Option<Resolution>) -> Option<String> {
            clear(&self.root(), &self.left, found).unwrap()
        }
    }

    #[test]
    fn what_the_record_explains_is_removed_wherever_it_stands() {
        for (place, content, found) in [
            ("", "half", Resolution::NotApplied),
            ("a", "new", Resolution::NotApplied),
            ("a/b", "old", Resolution::Applied),
            ("a/b", "new", Resolution::Indeterminate),
        ] {
            let scene = Scene::new();
            fs::write(scene.root().join("a/b/file"), "x").unwrap();
            fs::write(scene.temporary(place), content).unwrap();
            assert_eq!(scene.clear(Some(found)), None);
            assert!(!scene.temporary(place).exists(), "{place} {content}");
            assert_eq!(fs::read(scene.root().join("a/b/file")).unwrap(), b"x");
        }
    }

    #[test]
    fn another_programs_version_is_kept_and_named() {
        let scene = Scene::new();
        for found in [Resolution::Applied, Resolution::Indeterminate] {
            fs::write(scene.temporary("a/b"), "theirs").unwrap();
            assert_eq!(scene.clear(Some(found)), Some(temporary_name(scene.left.action_id)));
            assert_eq!(fs::read(scene.temporary("a/b")).unwrap(), b"theirs");
        }
    }

    #[test]
    fn a_file_that_was_moved_aside_to_go_goes_with_its_directories_and_another_programs_stays() {
        for (aside, kept) in [("old", false), ("theirs", true)] {
            let mut scene = Scene::new();
            scene.left.prepared = Some(PreparedChange::Removal(PreparedRemoval {
                path: "a/b/file".into(),
                before: Digest::of(b"old"),
                bytes: 3,
                mode: 0o644,
                temporary: temporary_name(scene.left.action_id),
                directories: vec!["a".into(), "a/b".into()],
            }));
            fs::write(scene.temporary("a/b"), aside).unwrap();
            assert_eq!(scene.clear(Some(Resolution::Applied)).is_some(), kept);
            assert_eq!(scene.root().join("a").exists(), kept);
        }
    }

    #[test]
    fn directories_of_a_write_that_did_not_happen_go_where_they_are_empty() {
        let scene = Scene::new();
        assert_eq!(scene.clear(Some(Resolution::NotApplied)), None);
        assert!(!scene.root().join("a").exists());
        let scene = Scene::new();
        fs::write(scene.root().join("a/other"), "").unwrap();
        assert_eq!(scene.clear(Some(Resolution::NotApplied)), None);
        assert!(scene.root().join("a/other").exists() && !scene.root().join("a/b").exists());
        let scene = Scene::new();
        assert_eq!(scene.clear(Some(Resolution::Applied)), None);
        assert!(scene.root().join("a/b").exists());
    }

    #[test]
    fn an_action_that_prepared_nothing_leaves_only_its_staged_file() {
        let mut scene = Scene::new();
        scene.left.prepared = None;
        scene.left.path = scene.root().join("a/b/c/d/file");
        fs::write(scene.temporary("a/b"), "anything").unwrap();
        assert_eq!(scene.clear(None), None);
        assert!(!scene.temporary("a/b").exists() && scene.root().join("a/b").exists());
    }

    #[test]
    fn no_link_is_followed() {
        let scene = Scene::new();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(temporary_name(scene.left.action_id)), "new").unwrap();
        fs::remove_dir(scene.root().join("a/b")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), scene.root().join("a/b")).unwrap();
        assert_eq!(scene.clear(Some(Resolution::Indeterminate)), None);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }
}
