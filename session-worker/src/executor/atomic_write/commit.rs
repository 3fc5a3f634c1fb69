//! The staged content takes its place: compared, swapped, verified, made durable.
//!
//! The old and the new file are exchanged in one step, and only then is it judged what came out: a program that
//! changed or replaced the file at the last moment finds its own version put back. So the comparison has no gap before
//! the rename. Where a file system can't exchange, the content is compared and renamed over, which leaves a gap of
//! microseconds.
//!
//! Invariant: nothing is removed but the staged file and the very file whose content is recorded as `before`.
//! Invariant: an outcome other than `Applied` and `NotApplied` says what is not known and which file was kept.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Seek},
    path::Path,
};

use nix::{fcntl::AtFlags, unistd::UnlinkatFlags};
use protocol::{
    action::{Effect, Prepared},
    crash,
    digest::Digest,
    recorded::Recorded,
};

use super::alone::Alone;
use super::current::{Remembered, Stamp};
use super::observe::{Observed, observe, observe_at};
use super::refusal::Refusal;
use super::staged::{Armed, Staged, make_directory};
use super::sys::{self, Entry};
use super::target::{Identity, Target};
use super::walk::{self, Walked};

/// What became of a staged write.
#[derive(Debug)]
#[must_use]
pub(crate) enum Commit {
    /// The file has the new content, durably. Each note says what of the old file could not be kept.
    Applied {
        /// Of owner, lists, attributes.
        notes: Vec<String>,
    },
    /// The file was left as it is.
    NotApplied(Refusal),
    /// Other programs interfered, or the disk failed, so that the outcome can't be known.
    Indeterminate {
        /// What happened.
        why: String,
        /// What stands at the target now, where it could be looked at.
        observed: Option<Observed>,
        /// The name, beside the target, of another program's version that lost its place.
        kept: Option<String>,
    },
}

/// Why a commit did not end well.
pub(super) enum Trouble {
    Refused(Refusal),
    Unclear { why: String, kept: Option<String> },
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(super) fn unclear(why: &str) -> Trouble {
    Trouble::Unclear { why: why.to_owned(), kept: None }
}

/// How closely a file is compared with what was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// By its stamp; by its content where the stamp differs.
    Stamp,
    /// By its content in any case.
    Content,
}

/// Whether a file is still the one that was seen.
pub(super) enum Standing {
    Same,
    /// With the digest of what it holds now, where it is a readable file.
    Changed(Option<Digest>),
}

impl<'a> Staged<'a> {
    /// Puts the staged content in its place, now that the write is recorded.
    pub(crate) fn commit(mut self, recorded: &Recorded<Prepared>) -> Commit {
        if !matches!(&recorded.get().effect, Effect::Write(write) if *write == self.write) {
            return Commit::NotApplied(Refusal::NotRecorded { path: self.path() });
        }
        let done = match self.before.take() {
            Some(seen) => self.replace(&seen),
            None => self.create(),
        };
        match done {
            Ok(()) => Commit::Applied { notes: std::mem::take(&mut self.notes) },
            Err(Trouble::Refused(refusal)) => Commit::NotApplied(refusal),
            Err(Trouble::Unclear { why, kept }) => {
                Commit::Indeterminate { why, observed: observe(self.root, self.target).ok(), kept }
            }
        }
    }

    fn replace(&mut self, seen: &Remembered) -> Result<(), Trouble> {
        let walked = self.walk_again()?;
        let directory = walked.last(self.root);
        let _alone = Alone::within(directory);
        self.expect_same(seen, directory, Check::Stamp)?;
        if !self.temp.is_in_place() {
            return Err(Refusal::StagedGone { path: self.path() }.into());
        }
        match sys::exchange(self.staged_entry(), self.entry_in(directory)) {
            Ok(()) => {
                crash::point("worker-after-exchange");
                self.settle_exchange(seen, directory)
            }
            Err(error) if sys::is_unsupported(&error) => self.rename_over(seen, directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.stale(None).into()),
            Err(error) => Err(self.system("replacing", error).into()),
        }
    }

    /// The files were exchanged: judges what came out, and removes it or puts it back.
    fn settle_exchange(&mut self, seen: &Remembered, directory: &File) -> Result<(), Trouble> {
        self.temp.armed = Armed::No;
        match standing(seen, (&self.temp.directory, self.temp.name.as_os_str()), Check::Content) {
            Standing::Same => {
                let in_place = self.is_ours(directory);
                let gone = self.temp.remove(seen.stamp.identity);
                crash::point("worker-after-removal");
                self.sync(directory)?;
                gone.map_err(|error| self.left(&format!("the old version could not be removed: {error}")))?;
                if !in_place {
                    return Err(unclear("another program replaced the file in the moment of the write"));
                }
                self.expect_still_here(directory)
            }
            Standing::Changed(now) => self.put_back(directory, now),
        }
    }

    /// What came out is not what was seen: it goes back to its place.
    fn put_back(&mut self, directory: &File, now: Option<Digest>) -> Result<(), Trouble> {
        let name = self.temp.name.as_str().to_owned();
        let kept = || Some(name.clone());
        match sys::exchange(self.staged_entry(), self.entry_in(directory)) {
            Ok(()) if self.temp.is_in_place() => {
                let gone = self.temp.remove(self.temp.identity);
                self.sync(directory)?;
                gone.map_err(|error| self.left(&format!("the staged file could not be removed: {error}")))?;
                Err(self.stale(now).into())
            }
            Ok(()) => {
                // Somebody replaced the file once more in between: the newest version belongs in its place, and the
                // one before it is kept under the staged name.
                let again = sys::exchange(self.staged_entry(), self.entry_in(directory));
                let why = match again {
                    Ok(()) => {
                        "other programs replaced the file several times in the moment of the write".to_owned()
                    }
                    Err(error) => format!("other programs replaced the file during the write, and: {error}"),
                };
                Err(Trouble::Unclear { why, kept: kept() })
            }
            Err(_) => match sys::move_new(self.staged_entry(), self.entry_in(directory)) {
                Ok(()) => Err(unclear("another program moved the file away in the moment of the write")),
                Err(error) => Err(Trouble::Unclear {
                    why: format!("another program's version could not be put back in its place: {error}"),
                    kept: kept(),
                }),
            },
        }
    }

    /// For file systems that can't exchange.
    fn rename_over(&mut self, seen: &Remembered, directory: &File) -> Result<(), Trouble> {
        self.expect_same(seen, directory, Check::Content)?;
        let name = self.temp.name.as_os_str();
        nix::fcntl::renameat(&self.temp.directory, name, directory, self.target.name())
            .map_err(|errno| self.system("replacing", errno.into()))?;
        self.temp.armed = Armed::No;
        self.settle_moved(directory)
    }

    fn create(&mut self) -> Result<(), Trouble> {
        let walked = self.walk_again()?;
        let mut made = Vec::new();
        let done = self.make_directories(&walked, &mut made).and_then(|innermost| {
            let directory = innermost.as_ref().unwrap_or(walked.last(self.root));
            self.move_in(directory)
        });
        if let Err(Trouble::Refused(_)) = done {
            // Only what this write made, and only while it is empty.
            for (parent, name) in made.iter().rev() {
                let _ = nix::unistd::unlinkat(parent, *name, UnlinkatFlags::RemoveDir);
            }
        }
        done
    }

    /// Makes the missing parents one by one; returns the innermost where any was missing.
    fn make_directories(
        &self,
        walked: &Walked,
        made: &mut Vec<(File, &'a OsStr)>,
    ) -> Result<Option<File>, Trouble> {
        let mut innermost: Option<File> = None;
        let target: &'a Target = self.target;
        for name in &target.parents()[walked.depth()..] {
            let parent = innermost.as_ref().unwrap_or(walked.last(self.root));
            let directory = match make_directory(parent, Path::new(name), self.modes) {
                Ok(directory) => {
                    let parent =
                        parent.try_clone().map_err(|error| self.system("opening the directory of", error))?;
                    made.push((parent, name.as_os_str()));
                    crash::point("worker-after-directory");
                    directory
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    walk::open_directory(parent, name).map_err(|_| Refusal::Moved { path: self.path() })?
                }
                Err(error) => return Err(self.system("making the directories of", error).into()),
            };
            innermost = Some(directory);
        }
        Ok(innermost)
    }

    fn move_in(&mut self, directory: &File) -> Result<(), Trouble> {
        if !self.temp.is_in_place() {
            return Err(Refusal::StagedGone { path: self.path() }.into());
        }
        let moved = match sys::move_new(self.staged_entry(), self.entry_in(directory)) {
            Err(error) if sys::is_unsupported(&error) => self.link_in(directory),
            other => other,
        };
        match moved {
            Ok(()) => {
                crash::point("worker-after-exchange");
                self.temp.armed = Armed::No;
                self.settle_moved(directory)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let now = match observe_at(directory, self.target.name()) {
                    Ok(Observed::File { sha256, .. }) => Some(sha256),
                    Ok(Observed::Absent | Observed::Other(_)) | Err(_) => None,
                };
                Err(self.stale(now).into())
            }
            Err(error) => Err(self.system("creating", error).into()),
        }
    }

    /// For file systems that can't rename without replacing: a second name fails where one exists.
    fn link_in(&self, directory: &File) -> io::Result<()> {
        let name = self.temp.name.as_os_str();
        nix::unistd::linkat(&self.temp.directory, name, directory, self.target.name(), AtFlags::empty())?;
        Ok(nix::unistd::unlinkat(&self.temp.directory, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// The staged file has the target's name now.
    fn settle_moved(&self, directory: &File) -> Result<(), Trouble> {
        let in_place = self.is_ours(directory);
        self.sync(directory)?;
        self.sync(&self.temp.directory)?;
        if !in_place {
            return Err(unclear("another program replaced the file in the moment of the write"));
        }
        self.expect_still_here(directory)
    }

    /// The target's directories once more: those of the staging must be the same ones.
    fn walk_again(&self) -> Result<Walked, Refusal> {
        self.root.check_in_place()?;
        let walked = walk::walk(self.root, self.target)?;
        if walked.identities.starts_with(&self.identities) {
            return Ok(walked);
        }
        Err(Refusal::Moved { path: self.path() })
    }

    fn expect_same(&self, seen: &Remembered, directory: &File, check: Check) -> Result<(), Refusal> {
        match standing(seen, (directory, self.target.name()), check) {
            Standing::Same => Ok(()),
            Standing::Changed(now) => Err(self.stale(now)),
        }
    }

    /// The directory that was written is still the one that the path names.
    fn expect_still_here(&self, directory: &File) -> Result<(), Trouble> {
        let here = Identity::of_file(directory).ok();
        match self.walk_again() {
            Ok(walked) if walked.is_whole(self.target) && walked.identities.last().copied() == here => Ok(()),
            Ok(_) | Err(_) => Err(unclear("the file's directory was moved in the moment of the write")),
        }
    }

    fn is_ours(&self, directory: &File) -> bool {
        matches!(walk::stat_at(directory, self.target.name()),
            Ok(Some(stat)) if Identity::of_stat(&stat) == self.temp.identity)
    }

    fn sync(&self, directory: &File) -> Result<(), Trouble> {
        directory.sync_all().map_err(|error| {
            unclear(&format!("the file was replaced, but its directory could not be synced: {error}"))
        })
    }

    /// Something of this write stays under the staged name.
    fn left(&self, why: &str) -> Trouble {
        Trouble::Unclear { why: why.to_owned(), kept: Some(self.temp.name.as_str().to_owned()) }
    }

    fn staged_entry(&self) -> Entry<'_> {
        Entry { directory: &self.temp.directory, name: self.temp.name.as_os_str() }
    }

    fn entry_in<'d>(&'d self, directory: &'d File) -> Entry<'d> {
        Entry { directory, name: self.target.name() }
    }

    fn stale(&self, now: Option<Digest>) -> Refusal {
        Refusal::Stale { path: self.path(), now }
    }

    fn system(&self, attempt: &'static str, source: io::Error) -> Refusal {
        Refusal::System { attempt, path: self.path(), source }
    }
}

/// Compares what has this name with the file that was seen: the same inode, no second name, the same content.
pub(super) fn standing(seen: &Remembered, (directory, name): (&File, &OsStr), check: Check) -> Standing {
    match walk::stat_at(directory, name) {
        Ok(Some(stat)) if walk::kind_of(&stat).is_none() => {}
        Ok(_) | Err(_) => return Standing::Changed(None),
    }
    let opened = walk::open_file(directory, name).and_then(|file| Ok((file.metadata()?, file)));
    let Ok((metadata, mut file)) = opened else { return Standing::Changed(None) };
    let stamp = Stamp::of(&metadata);
    if check == Check::Stamp && stamp == seen.stamp {
        return Standing::Same;
    }
    match super::observe::holds(&mut file, &seen.bytes) {
        Ok(true) if stamp.is_only_name_of(seen.stamp) => Standing::Same,
        Ok(_) => Standing::Changed(
            file.rewind().and_then(|()| super::observe::hash(&mut file)).ok().map(|(now, _)| now),
        ),
        Err(_) => Standing::Changed(None),
    }
}

#[cfg(test)]
mod tests {
    //! The ways for file systems that can't exchange or can't rename without replacing.

    use std::fs;

    use super::super::tests::{MODES, Scene};
    use super::super::{Current, TempName};
    use super::*;
    use crate::executor::versions::Content;
    use protocol::id::ActionId;

    fn staged<'s>(scene: &'s Scene, target: &'s Target) -> Staged<'s> {
        let current = Current::look(&scene.root, target, &scene.protected).unwrap();
        current
            .stage(&Content::of(b"new"), TempName::for_action(ActionId::mint()), MODES)
            .unwrap()
            .sync()
            .unwrap()
    }

    #[test]
    fn renaming_over_compares_the_content_first() {
        let scene = Scene::new();
        let path = scene.path("file");
        fs::write(&path, "old").unwrap();
        let target = scene.target("file");
        let mut refused = staged(&scene, &target);
        fs::write(&path, "OLD").unwrap();
        let seen = refused.before.take().unwrap();
        let done = refused.rename_over(&seen, scene.root.directory());
        assert!(matches!(done, Err(Trouble::Refused(Refusal::Stale { now: Some(_), .. }))));
        drop(refused);
        assert_eq!(fs::read_to_string(&path).unwrap(), "OLD");

        let mut done = staged(&scene, &target);
        let seen = done.before.take().unwrap();
        assert!(done.rename_over(&seen, scene.root.directory()).is_ok());
        drop(done);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(scene.root.path()).unwrap().count(), 1);
    }

    #[test]
    fn linking_in_replaces_nothing() {
        let scene = Scene::new();
        let (path, target) = (scene.path("file"), scene.target("file"));
        let late = staged(&scene, &target);
        let first = staged(&scene, &target);
        assert!(first.link_in(scene.root.directory()).is_ok());
        let taken = late.link_in(scene.root.directory()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        drop((first, late));
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(scene.root.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_version_that_came_out_goes_back() {
        let scene = Scene::new();
        let (path, target) = (scene.path("file"), scene.target("file"));
        fs::write(&path, "old").unwrap();
        let mut late = staged(&scene, &target);
        let seen = late.before.take().unwrap();
        // After the comparison and before the exchange.
        fs::write(&path, "theirs").unwrap();
        let directory = scene.root.directory();
        sys::exchange(late.staged_entry(), late.entry_in(directory)).unwrap();
        let done = late.settle_exchange(&seen, directory);
        let theirs = Some(Digest::of(b"theirs"));
        assert!(matches!(done, Err(Trouble::Refused(Refusal::Stale { now, .. })) if now == theirs));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(fs::read_dir(scene.root.path()).unwrap().count(), 1);
    }
}
