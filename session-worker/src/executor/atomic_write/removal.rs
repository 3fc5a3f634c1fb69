//! A file is taken away: the undo of the action that made it. Compared, moved aside, verified, removed, made durable.
//!
//! The file is moved to the action's own name in one step, and only then is it judged what came out: a program that changed or
//! replaced it at the last moment finds its version put back.
//!
//! Invariant: nothing is removed but the very file whose content is recorded as `before`, and directories that are empty.

use std::{ffi::OsStr, fs::File, io, os::unix::fs::MetadataExt, path::PathBuf};

use nix::unistd::UnlinkatFlags;
use protocol::{
    action::{Effect, Prepared, PreparedRemoval},
    crash,
    digest::Digest,
    recorded::Recorded,
};

use super::commit::{Check, Commit, Standing, Trouble, standing, unclear};
use super::current::{Current, Remembered};
use super::observe::observe;
use super::refusal::Refusal;
use super::sys::{self, Entry};
use super::target::{Identity, Root, Target};
use super::temp_name::TempName;
use super::walk::{self, Walked};

/// A file that is about to be taken away.
#[derive(Debug)]
pub(crate) struct Removal<'a> {
    root: &'a Root,
    target: &'a Target,
    /// The file's directories when it was looked at, outermost first.
    identities: Vec<Identity>,
    seen: Remembered,
    name: TempName,
    removal: PreparedRemoval,
}

impl<'a> Current<'a> {
    /// What takes the file that was looked at away, and with it those of `directories`, outermost first, that are empty then.
    /// Changes nothing yet.
    ///
    /// # Errors
    /// [`Refusal::Stale`] where there is no file.
    pub(crate) fn removal(self, name: TempName, directories: Vec<PathBuf>) -> Result<Removal<'a>, Refusal> {
        let Self { root, target, walked, seen } = self;
        let seen = seen.ok_or_else(|| Refusal::Stale { path: target.absolute().to_owned(), now: None })?;
        let removal = PreparedRemoval {
            path: target.relative().to_owned(),
            before: seen.digest,
            bytes: seen.bytes.len() as u64,
            mode: seen.metadata.mode() & 0o7777,
            temporary: name.as_str().to_owned(),
            directories,
        };
        let (identities, seen) = (walked.identities, seen.remembered());
        Ok(Removal { root, target, identities, seen, name, removal })
    }
}

impl Removal<'_> {
    /// What is to be recorded before it is committed.
    pub(crate) fn prepared(&self) -> &PreparedRemoval {
        &self.removal
    }

    /// Takes the file away, now that this is recorded.
    pub(crate) fn commit(self, recorded: &Recorded<Prepared>) -> Commit {
        if !matches!(&recorded.get().effect, Effect::Remove(removal) if *removal == self.removal) {
            return Commit::NotApplied(Refusal::NotRecorded { path: self.path() });
        }
        match self.remove() {
            Ok(()) => Commit::Applied { notes: self.remove_directories() },
            Err(Trouble::Refused(refusal)) => Commit::NotApplied(refusal),
            Err(Trouble::Unclear { why, kept }) => {
                Commit::Indeterminate { why, observed: observe(self.root, self.target).ok(), kept }
            }
        }
    }

    fn remove(&self) -> Result<(), Trouble> {
        let walked = self.walk_again()?;
        let directory = walked.last(self.root);
        if let Standing::Changed(now) = self.standing(directory, self.target.name(), Check::Stamp) {
            return Err(self.stale(now).into());
        }
        let (from, aside) = (self.entry(directory, self.target.name()), self.aside(directory));
        match sys::move_new(from, aside) {
            Ok(()) => {}
            Err(error) if sys::is_unsupported(&error) => return self.unlink_compared(directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.stale(None).into()),
            Err(error) => return Err(self.system("moving aside", error).into()),
        }
        crash::point("worker-after-exchange");
        match self.standing(directory, self.name.as_os_str(), Check::Content) {
            Standing::Same => self.unlink(directory, self.name.as_os_str()),
            Standing::Changed(now) => self.put_back(directory, now),
        }
    }

    /// For file systems that can't move without replacing: a gap of microseconds is left.
    fn unlink_compared(&self, directory: &File) -> Result<(), Trouble> {
        match self.standing(directory, self.target.name(), Check::Content) {
            Standing::Same => self.unlink(directory, self.target.name()),
            Standing::Changed(now) => Err(self.stale(now).into()),
        }
    }

    fn unlink(&self, directory: &File, name: &OsStr) -> Result<(), Trouble> {
        nix::unistd::unlinkat(directory, name, UnlinkatFlags::NoRemoveDir)
            .map_err(|errno| unclear(&format!("the file could not be removed: {errno}")))?;
        crash::point("worker-after-removal");
        directory.sync_all().map_err(|error| {
            unclear(&format!("the file was taken away, but its directory could not be synced: {error}"))
        })
    }

    /// What came out is not what was seen: it goes back to its place.
    fn put_back(&self, directory: &File, now: Option<Digest>) -> Result<(), Trouble> {
        let back = self.entry(directory, self.target.name());
        match sys::move_new(self.aside(directory), back).and_then(|()| directory.sync_all()) {
            Ok(()) => Err(self.stale(now).into()),
            Err(error) => Err(Trouble::Unclear {
                why: format!("another program's version could not be put back in its place: {error}"),
                kept: Some(self.name.as_str().to_owned()),
            }),
        }
    }

    /// Removes the directories that went with the file, innermost first; each note says which one stays.
    fn remove_directories(&self) -> Vec<String> {
        for relative in self.removal.directories.iter().rev() {
            if let Err(error) = self.remove_directory(relative) {
                let stays = self.root.path().join(relative);
                return vec![format!("the directory {} stays: {error}", stays.display())];
            }
        }
        Vec::new()
    }

    fn remove_directory(&self, relative: &std::path::Path) -> Result<(), String> {
        let directory = Target::new(relative, self.root.path()).map_err(|refusal| refusal.to_string())?;
        let walked = walk::walk(self.root, &directory).map_err(|refusal| refusal.to_string())?;
        if !walked.is_whole(&directory) {
            return Ok(());
        }
        let parent = walked.last(self.root);
        match nix::unistd::unlinkat(parent, directory.name(), UnlinkatFlags::RemoveDir) {
            Ok(()) => parent.sync_all().map_err(|error| error.to_string()),
            Err(nix::errno::Errno::ENOENT) => Ok(()),
            Err(nix::errno::Errno::ENOTEMPTY | nix::errno::Errno::EEXIST) => {
                Err("something else is in it".to_owned())
            }
            Err(errno) => Err(errno.desc().to_owned()),
        }
    }

    /// The target's directories once more: they must be those of the look.
    fn walk_again(&self) -> Result<Walked, Refusal> {
        self.root.check_in_place()?;
        let walked = walk::walk(self.root, self.target)?;
        if walked.identities == self.identities {
            Ok(walked)
        } else {
            Err(Refusal::Moved { path: self.path() })
        }
    }

    fn standing(&self, directory: &File, name: &OsStr, check: Check) -> Standing {
        standing(&self.seen, (directory, name), check)
    }

    fn entry<'d>(&self, directory: &'d File, name: &'d OsStr) -> Entry<'d> {
        Entry { directory, name }
    }

    fn aside<'d>(&'d self, directory: &'d File) -> Entry<'d> {
        Entry { directory, name: self.name.as_os_str() }
    }

    fn path(&self) -> PathBuf {
        self.target.absolute().to_owned()
    }

    fn stale(&self, now: Option<Digest>) -> Refusal {
        Refusal::Stale { path: self.path(), now }
    }

    fn system(&self, attempt: &'static str, source: io::Error) -> Refusal {
        Refusal::System { attempt, path: self.path(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use protocol::{
        id::ActionId,
        recorded::{Ack, RecordId, Recordable},
        timestamp::Timestamp,
    };

    use super::super::tests::Scene;
    use super::*;

    fn removal<'s>(scene: &'s Scene, target: &'s Target, directories: &[&str]) -> Removal<'s> {
        let current = Current::look(&scene.root, target, &scene.protected).unwrap();
        let directories = directories.iter().map(PathBuf::from).collect();
        current.removal(TempName::for_action(ActionId::mint()), directories).unwrap()
    }

    fn recorded(effect: Effect) -> Recorded<Prepared> {
        let prepared = Prepared { action_id: ActionId::mint(), prepared_at: Timestamp::now(), effect };
        let ack = Ack::mint(RecordId { launch: 0, number: 1 }, prepared.record_digest());
        Recorded::new(prepared, ack).unwrap()
    }

    fn commit(removal: Removal<'_>) -> Commit {
        let record = recorded(Effect::Remove(removal.prepared().clone()));
        removal.commit(&record)
    }

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_file_goes_and_its_empty_directories_with_it() {
        let scene = Scene::new();
        fs::create_dir_all(scene.path("a/b")).unwrap();
        fs::write(scene.path("a/b/file"), "x").unwrap();
        let target = scene.target("a/b/file");
        assert!(
            matches!(commit(removal(&scene, &target, &["a", "a/b"])), Commit::Applied { notes } if notes.is_empty())
        );
        assert_eq!(names(scene.root.path()), 0);

        fs::create_dir_all(scene.path("a/b")).unwrap();
        fs::write(scene.path("a/b/file"), "x").unwrap();
        fs::write(scene.path("a/other"), "y").unwrap();
        let done = commit(removal(&scene, &target, &["a", "a/b"]));
        assert!(matches!(done, Commit::Applied { notes } if notes.len() == 1));
        assert_eq!((names(scene.root.path()), names(&scene.path("a"))), (1, 1));
        assert_eq!(fs::read(scene.path("a/other")).unwrap(), b"y");
    }

    #[test]
    fn what_changed_in_the_meantime_stays() {
        let scene = Scene::new();
        let target = scene.target("file");
        fs::write(scene.path("file"), "x").unwrap();
        let late = removal(&scene, &target, &[]);
        fs::write(scene.path("file"), "theirs").unwrap();
        let theirs = Some(Digest::of(b"theirs"));
        assert!(matches!(commit(late), Commit::NotApplied(Refusal::Stale { now, .. }) if now == theirs));

        // Changed after the comparison, and moved aside.
        let late = removal(&scene, &target, &[]);
        fs::rename(scene.path("file"), scene.path(late.name.as_str())).unwrap();
        fs::write(scene.path(late.name.as_str()), "newest").unwrap();
        let put = late.put_back(scene.root.directory(), None);
        assert!(matches!(put, Err(Trouble::Refused(Refusal::Stale { .. }))));
        assert_eq!(fs::read(scene.path("file")).unwrap(), b"newest");
        assert_eq!(names(scene.root.path()), 1);

        // A new one took its place before the version that came out could go back: both stay.
        let late = removal(&scene, &target, &[]);
        fs::rename(scene.path("file"), scene.path(late.name.as_str())).unwrap();
        fs::write(scene.path("file"), "another").unwrap();
        let put = late.put_back(scene.root.directory(), None);
        assert!(matches!(put, Err(Trouble::Unclear { kept: Some(_), .. })));
        assert_eq!(names(scene.root.path()), 2);
    }

    #[test]
    fn without_its_record_or_its_directory_nothing_goes() {
        let scene = Scene::new();
        fs::create_dir(scene.path("a")).unwrap();
        fs::write(scene.path("a/file"), "x").unwrap();
        let target = scene.target("a/file");
        let unrecorded = removal(&scene, &target, &[]);
        let other = PreparedRemoval { bytes: 9, ..unrecorded.prepared().clone() };
        let done = unrecorded.commit(&recorded(Effect::Remove(other)));
        assert!(matches!(done, Commit::NotApplied(Refusal::NotRecorded { .. })));
        let moved = removal(&scene, &target, &[]);
        fs::rename(scene.path("a"), scene.path("b")).unwrap();
        fs::create_dir(scene.path("a")).unwrap();
        fs::write(scene.path("a/file"), "x").unwrap();
        assert!(matches!(commit(moved), Commit::NotApplied(Refusal::Moved { .. })));
        assert_eq!((names(&scene.path("a")), names(&scene.path("b"))), (1, 1));
    }

    #[test]
    fn where_nothing_can_be_moved_the_content_is_compared_first() {
        let scene = Scene::new();
        let target = scene.target("file");
        fs::write(scene.path("file"), "x").unwrap();
        let late = removal(&scene, &target, &[]);
        fs::write(scene.path("file"), "y").unwrap();
        assert!(late.unlink_compared(scene.root.directory()).is_err());
        assert!(removal(&scene, &target, &[]).unlink_compared(scene.root.directory()).is_ok());
        assert_eq!(names(scene.root.path()), 0);
    }
}
