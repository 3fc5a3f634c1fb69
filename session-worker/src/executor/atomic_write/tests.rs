//! What replacing a file promises: by example, by refusal, and against programs that interfere.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use protocol::{
    action::{Effect, Prepared, PreparedWrite},
    digest::Digest,
    failure::ToolErrorCode,
    id::ActionId,
    recorded::{Ack, RecordId, Recordable, Recorded},
    timestamp::Timestamp,
};
use sandbox_profiles::{Protected, ProtectedSources};
use tempfile::TempDir;

use super::{target::Target, *};
use crate::executor::versions::Content;

mod adversary;
mod races;

/// A directory with a root in it and an outside beside it.
pub(super) struct Scene {
    directory: TempDir,
    pub(super) root: Root,
    pub(super) protected: Protected,
}

/// What a program makes under the usual umask.
pub(super) const MODES: NewModes = NewModes::under_umask(0o022);

impl Scene {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        fs::create_dir(base.join("root")).unwrap();
        fs::create_dir(base.join("outside")).unwrap();
        let added = vec![base.join("root/secrets")];
        let protected = Protected::gather(&ProtectedSources { added, ..ProtectedSources::default() });
        Self { root: Root::open(&base.join("root")).unwrap(), protected, directory }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub(super) fn outside(&self, relative: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("outside").join(relative)
    }

    pub(super) fn target(&self, relative: &str) -> Target {
        self.root.locate(&self.path(relative)).unwrap()
    }

    fn put(&self, relative: &str, content: &str) {
        fs::create_dir_all(self.path(relative).parent().unwrap()).unwrap();
        fs::write(self.path(relative), content).unwrap();
    }

    fn write(&self, relative: &str, content: &str) -> Result<Commit, Refusal> {
        let target = self.root.locate(&self.path(relative))?;
        let current = Current::look(&self.root, &target, &self.protected)?;
        let staged = current
            .stage(&Content::of(content.as_bytes()), TempName::for_action(ActionId::mint()), MODES)?
            .sync()?;
        let record = record(staged.prepared());
        Ok(staged.commit(&record))
    }

    /// Every path below the scene with its kind, mode and content.
    fn tree(&self) -> Vec<(PathBuf, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut open = vec![self.directory.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                if metadata.is_dir() {
                    open.push(path.clone());
                }
                found.push((path, metadata.mode(), content));
            }
        }
        found.sort();
        found
    }
}

pub(super) fn record(write: &PreparedWrite) -> Recorded<Prepared> {
    let effect = Effect::Write(write.clone());
    let prepared = Prepared { action_id: ActionId::mint(), prepared_at: Timestamp::now(), effect };
    let ack = Ack::mint(RecordId { launch: 1, number: 1 }, prepared.record_digest());
    Recorded::new(prepared, ack).unwrap()
}

fn code(result: Result<Commit, Refusal>) -> ToolErrorCode {
    match result {
        Err(refusal) | Ok(Commit::NotApplied(refusal)) => refusal.code(),
        Ok(other) => panic!("expected a refusal, got {other:?}"),
    }
}

#[track_caller]
fn applied(result: Result<Commit, Refusal>) -> Vec<String> {
    match result {
        Ok(Commit::Applied { notes }) => notes,
        other => panic!("expected a write, got {other:?}"),
    }
}

#[test]
fn a_file_is_replaced_and_keeps_what_it_is() {
    let scene = Scene::new();
    scene.put("a/file", "old");
    fs::set_permissions(scene.path("a/file"), fs::Permissions::from_mode(0o750)).unwrap();
    let before = fs::metadata(scene.path("a/file")).unwrap();
    assert_eq!(applied(scene.write("a/file", "new")), Vec::<String>::new());
    let after = fs::metadata(scene.path("a/file")).unwrap();
    assert_eq!(fs::read(scene.path("a/file")).unwrap(), b"new");
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    assert_ne!(after.ino(), before.ino(), "a new file took its place");
    assert_eq!(fs::read_dir(scene.path("a")).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_set_id_bit_goes_and_is_said() {
    let scene = Scene::new();
    scene.put("file", "old");
    fs::set_permissions(scene.path("file"), fs::Permissions::from_mode(0o4755)).unwrap();
    let notes = applied(scene.write("file", "new"));
    assert!(notes.iter().any(|note| note.contains("set-user-id")), "{notes:?}");
    assert_eq!(fs::metadata(scene.path("file")).unwrap().mode() & 0o7777, 0o755);
}

#[cfg(target_os = "linux")]
#[test]
fn extended_attributes_are_kept() {
    let scene = Scene::new();
    scene.put("file", "old");
    let open = || fs::File::open(scene.path("file")).unwrap();
    if sys::xattr::set(&open(), c"user.note", b"kept").is_err() {
        return; // This file system has none.
    }
    assert_eq!(applied(scene.write("file", "new")), Vec::<String>::new());
    assert_eq!(sys::xattr::get(&open(), c"user.note").unwrap(), b"kept");
}

#[test]
fn a_new_file_gets_its_parents_one_by_one_and_only_with_the_commit() {
    let scene = Scene::new();
    scene.put("a/x", "");
    let target = scene.target("a/b/c/new");
    let current = Current::look(&scene.root, &target, &scene.protected).unwrap();
    assert!(current.content().is_none());
    let staged = current
        .stage(&Content::of(b"new"), TempName::for_action(ActionId::mint()), MODES)
        .unwrap()
        .sync()
        .unwrap();
    let made = staged.prepared().made_directories.clone();
    assert_eq!(made, [PathBuf::from("a/b"), PathBuf::from("a/b/c")]);
    assert!(!scene.path("a/b").exists(), "staging makes no directory");
    let temporary = scene.path("a").join(&staged.prepared().temporary);
    assert_eq!(fs::read(&temporary).unwrap(), b"new");
    let record = record(staged.prepared());
    applied(Ok(staged.commit(&record)));
    assert!(!temporary.exists());
    assert_eq!(fs::read(scene.path("a/b/c/new")).unwrap(), b"new");
    assert_eq!(fs::metadata(scene.path("a/b/c/new")).unwrap().mode() & 0o7777, 0o644);
    assert_eq!(fs::metadata(scene.path("a/b")).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn what_tools_never_write_is_refused_and_stays() {
    let scene = Scene::new();
    scene.put("file", "x");
    scene.put("sub/file", "x");
    scene.put(".git/config", "x");
    scene.put("secrets/key", "x");
    scene.put("linked", "x");
    fs::write(scene.outside("file"), "x").unwrap();
    fs::hard_link(scene.path("linked"), scene.outside("other name")).unwrap();
    symlink(scene.path("file"), scene.path("link")).unwrap();
    symlink(scene.outside("missing"), scene.path("dangling")).unwrap();
    symlink(scene.path("sub"), scene.path("inner")).unwrap();
    symlink(scene.outside(""), scene.path("outer")).unwrap();
    nix::unistd::mkfifo(&scene.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).unwrap();
    let before = scene.tree();
    for (path, expected) in [
        ("link", ToolErrorCode::NotRegular),
        ("dangling", ToolErrorCode::NotRegular),
        ("inner/file", ToolErrorCode::OutsideRoot),
        ("outer/file", ToolErrorCode::OutsideRoot),
        ("outer/new", ToolErrorCode::OutsideRoot),
        ("fifo", ToolErrorCode::NotRegular),
        ("socket", ToolErrorCode::NotRegular),
        ("sub", ToolErrorCode::NotRegular),
        ("linked", ToolErrorCode::NotRegular),
        ("file/below", ToolErrorCode::NotRegular),
        (".git/config", ToolErrorCode::ProtectedPath),
        (".git/hooks/pre-commit", ToolErrorCode::ProtectedPath),
        ("sub/.git", ToolErrorCode::ProtectedPath),
        ("secrets/key", ToolErrorCode::ProtectedPath),
        ("secrets/new", ToolErrorCode::ProtectedPath),
        ("secrets", ToolErrorCode::ProtectedPath),
        ("../outside/file", ToolErrorCode::InvalidArgument),
        ("", ToolErrorCode::InvalidArgument),
    ] {
        assert_eq!(code(scene.write(path, "y")), expected, "{path}");
    }
    let elsewhere = scene.root.locate(&scene.outside("file")).unwrap_err();
    assert_eq!(elsewhere.code(), ToolErrorCode::OutsideRoot);
    assert_eq!(scene.tree(), before);
}

#[test]
fn a_protected_file_is_refused_by_its_other_name_and_git_by_what_it_is() {
    let scene = Scene::new();
    scene.put("secrets/key", "x");
    let protected = Protected::gather(&ProtectedSources {
        added: vec![scene.path("secrets")],
        ..ProtectedSources::default()
    });
    fs::hard_link(scene.path("secrets/key"), scene.path("innocent")).unwrap();
    let target = scene.target("innocent");
    let refusal = Current::look(&scene.root, &target, &protected).unwrap_err();
    assert_eq!(refusal.code(), ToolErrorCode::ProtectedPath);
}

#[test]
fn another_spelling_of_the_root_is_the_same_root() {
    let scene = Scene::new();
    scene.put("sub/file", "x");
    symlink(scene.path(""), scene.outside("alias")).unwrap();
    let target = scene.root.locate(&scene.outside("alias/sub/file")).unwrap();
    assert_eq!(target.relative(), Path::new("sub/file"));
    assert_eq!(target.absolute(), scene.path("sub/file"));
}

#[test]
fn a_file_is_called_what_the_system_calls_it() {
    let scene = Scene::new();
    scene.put("sub/file", "x");
    for name in ["sub/file", "sub/new", "sub/a/b/new"] {
        let target = scene.target(name);
        let current = Current::look(&scene.root, &target, &scene.protected).unwrap();
        assert_eq!(current.canonical_path().unwrap(), scene.path(name));
    }
}

#[test]
fn a_file_beyond_the_limit_is_refused() {
    let scene = Scene::new();
    let size = crate::executor::edit::MAX_TEXT_BYTES as u64 + 1;
    fs::File::create(scene.path("large")).unwrap().set_len(size).unwrap();
    assert_eq!(code(scene.write("large", "x")), ToolErrorCode::TooLarge);
    assert_eq!(fs::metadata(scene.path("large")).unwrap().len(), size);
}

#[test]
fn a_file_without_write_permission_is_not_replaced() {
    let scene = Scene::new();
    scene.put("file", "old");
    fs::set_permissions(scene.path("file"), fs::Permissions::from_mode(0o444)).unwrap();
    if nix::unistd::geteuid().is_root() {
        // To root every file is writable.
        applied(scene.write("file", "new"));
        assert_eq!(fs::metadata(scene.path("file")).unwrap().mode() & 0o777, 0o444);
    } else {
        assert_eq!(code(scene.write("file", "new")), ToolErrorCode::DeniedBySystem);
    }
}

#[test]
fn a_staged_file_is_removed_when_it_is_not_committed() {
    let scene = Scene::new();
    scene.put("file", "old");
    let target = scene.target("file");
    let stage = || {
        let current = Current::look(&scene.root, &target, &scene.protected).unwrap();
        assert_eq!(current.content().unwrap().bytes(), b"old");
        current
            .stage(&Content::of(b"new"), TempName::for_action(ActionId::mint()), MODES)
            .unwrap()
            .sync()
            .unwrap()
    };
    let before = scene.tree();
    drop(stage());
    drop(stage());
    let other = record(stage().prepared());
    let refused = stage().commit(&other);
    assert!(matches!(refused, Commit::NotApplied(Refusal::NotRecorded { .. })), "{refused:?}");
    assert_eq!(scene.tree(), before);
}
