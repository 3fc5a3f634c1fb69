//! A new content staged beside its file: written, then synced, and not yet in its place.
//!
//! Invariant: staging changes no file of the project and makes no directory: the staged file is in the innermost
//! directory that exists.
//! Invariant: a staged file that is dropped without a commit is removed.
//! Invariant: only what is synced is a [`Staged`], which can be committed.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use nix::{errno::Errno, fcntl::OFlag, unistd::UnlinkatFlags};
use protocol::action::PreparedWrite;

use super::attributes;
use super::current::{Current, Remembered, Seen};
use super::refusal::Refusal;
use super::target::{Identity, Root, Target};
use super::temp_name::TempName;
use super::walk;
use crate::executor::{sys, versions::Content};

/// The modes of what is made new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewModes {
    pub(super) file: u32,
    pub(super) directory: u32,
}

impl NewModes {
    /// The same, but files get exactly these permission bits.
    pub(crate) const fn with_file(self, mode: u32) -> Self {
        Self { file: mode & 0o1777, ..self }
    }

    /// What a program of the user makes under this umask.
    pub(crate) const fn under_umask(umask: u32) -> Self {
        Self { file: 0o666 & !umask, directory: 0o777 & !umask }
    }
}

/// A file in a directory that is ours to remove.
#[derive(Debug)]
pub(super) struct TempFile {
    pub(super) directory: File,
    pub(super) name: TempName,
    pub(super) identity: Identity,
    pub(super) armed: Armed,
}

/// Whether dropping it removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Armed {
    Yes,
    /// It was moved into its place, or what is there must be kept.
    No,
}

impl TempFile {
    /// Whether its name still names it.
    pub(super) fn is_in_place(&self) -> bool {
        self.names(self.identity)
    }

    /// Whether its name names the file with this identity.
    fn names(&self, identity: Identity) -> bool {
        matches!(walk::stat_at(&self.directory, self.name.as_os_str()),
            Ok(Some(stat)) if Identity::of_stat(&stat) == identity)
    }

    /// Removes the name if it names the file with this identity; what another program put or took there is not
    /// ours to remove.
    pub(super) fn remove(&mut self, identity: Identity) -> io::Result<()> {
        self.armed = Armed::No;
        if !self.names(identity) {
            return Ok(());
        }
        match nix::unistd::unlinkat(&self.directory, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if self.armed == Armed::Yes {
            // Nobody is left to tell; recovery knows the name and clears it up.
            let _ = self.remove(self.identity);
        }
    }
}

/// A content that is written beside its file and not synced yet.
#[derive(Debug)]
#[must_use]
pub(crate) struct Unsynced<'a> {
    file: File,
    staged: Staged<'a>,
}

impl<'a> Unsynced<'a> {
    /// What is to be recorded before it is committed.
    pub(crate) fn prepared(&self) -> &PreparedWrite {
        &self.staged.write
    }

    /// Waits until it is on the disk.
    ///
    /// # Errors
    /// [`Refusal::System`] where the disk fails; the file is removed then.
    pub(crate) fn sync(self) -> Result<Staged<'a>, Refusal> {
        let Self { file, staged } = self;
        file.sync_all().map_err(|source| Refusal::System {
            attempt: "syncing a file beside",
            path: staged.path(),
            source,
        })?;
        Ok(staged)
    }
}

/// A staged content.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    pub(super) root: &'a Root,
    pub(super) target: &'a Target,
    /// The directories at staging, outermost first.
    pub(super) identities: Vec<Identity>,
    pub(super) temp: TempFile,
    pub(super) before: Option<Remembered>,
    pub(super) modes: NewModes,
    pub(super) notes: Vec<String>,
    pub(super) write: PreparedWrite,
}

impl<'a> Current<'a> {
    /// Stages `content` for the file that was looked at. The disk begins with it at once.
    ///
    /// # Errors
    /// [`Refusal::System`] where the directory can't be written, the disk is full, or the name is taken by what an
    /// earlier try of the same action left.
    pub(crate) fn stage(
        self,
        content: &Content<'_>,
        name: TempName,
        modes: NewModes,
    ) -> Result<Unsynced<'a>, Refusal> {
        let Self { root, target, walked, seen } = self;
        let directory = walked.last(root).try_clone();
        let system =
            |attempt| move |source| Refusal::System { attempt, path: target.absolute().to_owned(), source };
        let directory = directory.map_err(system("opening the directory of"))?;
        let write = PreparedWrite {
            path: target.relative().to_owned(),
            before: seen.as_ref().map(|seen| seen.digest),
            after: content.sha256(),
            bytes: (seen.as_ref().map_or(0, |seen| seen.bytes.len() as u64), content.bytes().len() as u64),
            temporary: name.as_str().to_owned(),
            made_directories: missing_directories(target, walked.depth()),
        };
        // From here on it is removed if anything fails.
        let (mut file, temp) = create(directory, name, modes).map_err(system("creating a file beside"))?;
        file.write_all(content.bytes()).map_err(system("writing a file beside"))?;
        sys::begin_write_out(&file);
        let notes = match &seen {
            Some(seen) => attributes::keep((&seen.file, &seen.metadata), &file)
                .map_err(system("keeping the mode of"))?,
            None => Vec::new(),
        };
        let (identities, before) = (walked.identities, seen.map(Seen::remembered));
        let staged = Staged { root, target, identities, temp, before, modes, notes, write };
        Ok(Unsynced { file, staged })
    }
}

impl Staged<'_> {
    /// What is to be recorded before it is committed.
    pub(crate) fn prepared(&self) -> &PreparedWrite {
        &self.write
    }

    pub(super) fn path(&self) -> PathBuf {
        self.target.absolute().to_owned()
    }
}

fn missing_directories(target: &Target, depth: usize) -> Vec<PathBuf> {
    let parents = target.parents();
    (depth..parents.len()).map(|last| parents[..=last].iter().collect::<PathBuf>()).collect()
}

/// Creates the staged file: nobody else's until its mode is set.
fn create(directory: File, name: TempName, modes: NewModes) -> io::Result<(File, TempFile)> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let inherits = attributes::hands_down_a_list(&directory);
    let mode = if inherits { modes.file } else { 0o600 };
    let file =
        File::from(nix::fcntl::openat(&directory, name.as_os_str(), flags, attributes::mode_bits(mode))?);
    let identity = Identity::of_file(&file).inspect_err(|_| {
        // It was made just now, under a name that nobody else uses.
        let _ = nix::unistd::unlinkat(&directory, name.as_os_str(), UnlinkatFlags::NoRemoveDir);
    })?;
    let temp = TempFile { directory, name, identity, armed: Armed::Yes };
    if !inherits {
        nix::sys::stat::fchmod(&file, attributes::mode_bits(modes.file))?;
    }
    Ok((file, temp))
}

/// Makes one directory and syncs the one that it is in. Where that fails it is not there.
pub(super) fn make_directory(parent: &File, name: &Path, modes: NewModes) -> io::Result<File> {
    let inherits = attributes::hands_down_a_list(parent);
    let mode = if inherits { modes.directory } else { 0o700 };
    nix::sys::stat::mkdirat(parent, name, attributes::mode_bits(mode))?;
    let mode = (!inherits).then_some(modes.directory);
    finish_directory(parent, name, mode).inspect_err(|_| {
        // Only while it is empty.
        let _ = nix::unistd::unlinkat(parent, name, UnlinkatFlags::RemoveDir);
    })
}

/// Opens a directory that was just made, gives it its mode where it did not inherit one, and makes its name durable.
fn finish_directory(parent: &File, name: &Path, mode: Option<u32>) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt;

    let made = walk::open_directory(parent, name.as_os_str())?;
    if let Some(mode) = mode {
        // The set-group-id bit comes from the parent and stays.
        let inherited = made.metadata()?.mode() & 0o2000;
        nix::sys::stat::fchmod(&made, attributes::mode_bits(mode | inherited))?;
    }
    parent.sync_all()?;
    Ok(made)
}
