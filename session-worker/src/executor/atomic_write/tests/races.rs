//! What another program changes between the look and the commit is never lost.

use super::*;

/// Does something between staging and commit, and returns the commit's outcome.
fn with_change(scene: &Scene, relative: &str, change: impl FnOnce(&Path)) -> Commit {
    let target = scene.target(relative);
    let current = Current::look(&scene.root, &target, &scene.protected).unwrap();
    let staged = current
        .stage(&Content::of(b"ours"), TempName::for_action(ActionId::mint()), MODES)
        .unwrap()
        .sync()
        .unwrap();
    change(&scene.path(relative));
    let record = record(staged.prepared());
    staged.commit(&record)
}

fn no_staged_files(scene: &Scene) {
    let left: Vec<_> =
        scene.tree().into_iter().filter(|(path, ..)| path.to_string_lossy().contains(".gateway-")).collect();
    assert_eq!(left, Vec::new());
}

#[test]
fn a_change_since_the_look_is_never_overwritten() {
    type Change = fn(&Path);
    let changes: [(&str, Change, Option<&str>); 7] = [
        ("other content", |path| fs::write(path, "other").unwrap(), Some("other")),
        (
            "same size and times",
            |path| {
                let times = fs::metadata(path).unwrap().modified().unwrap();
                fs::write(path, "OLD").unwrap();
                fs::File::options().write(true).open(path).unwrap().set_modified(times).unwrap();
            },
            Some("OLD"),
        ),
        (
            "another file with the same content",
            |path| {
                fs::write(path.with_extension("new"), "old").unwrap();
                fs::rename(path.with_extension("new"), path).unwrap();
            },
            Some("old"),
        ),
        ("gone", |path| fs::remove_file(path).unwrap(), None),
        ("a second name", |path| fs::hard_link(path, path.with_extension("link")).unwrap(), Some("old")),
        (
            "a link",
            |path| {
                fs::rename(path, path.with_extension("moved")).unwrap();
                symlink(path.with_extension("moved"), path).unwrap();
            },
            Some("old"),
        ),
        (
            "a directory",
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
            None,
        ),
    ];
    for (name, change, expected) in changes {
        let scene = Scene::new();
        scene.put("file", "old");
        let outcome = with_change(&scene, "file", change);
        assert_eq!(code(Ok(outcome)), ToolErrorCode::StaleRead, "{name}");
        let now = fs::read_to_string(scene.path("file")).ok();
        assert_eq!(now.as_deref(), expected, "{name}");
        no_staged_files(&scene);
    }
}

#[test]
fn what_came_to_be_since_the_look_is_not_overwritten() {
    let scene = Scene::new();
    let outcome = with_change(&scene, "a/new", |path| {
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(path, "theirs").unwrap();
    });
    let Commit::NotApplied(Refusal::Stale { now, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(now, Some(Digest::of(b"theirs")));
    assert_eq!(fs::read_to_string(scene.path("a/new")).unwrap(), "theirs");
    no_staged_files(&scene);
}

#[test]
fn touching_a_file_without_changing_it_is_no_change() {
    let scene = Scene::new();
    scene.put("file", "old");
    let outcome = with_change(&scene, "file", |path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    });
    applied(Ok(outcome));
}

#[test]
fn a_moved_root_or_parent_is_not_written() {
    let scene = Scene::new();
    scene.put("a/file", "old");
    let outcome = with_change(&scene, "a/file", |path| {
        fs::rename(path.parent().unwrap(), path.parent().unwrap().with_extension("moved")).unwrap();
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(path, "old").unwrap();
    });
    assert_eq!(code(Ok(outcome)), ToolErrorCode::NotApplied);
    assert_eq!(fs::read_to_string(scene.path("a.moved/file")).unwrap(), "old");
    no_staged_files(&scene);

    let root = scene.path("");
    let outcome = with_change(&scene, "a/file", |_| {
        fs::rename(&root, root.with_extension("moved")).unwrap();
        fs::create_dir(&root).unwrap();
    });
    assert!(matches!(outcome, Commit::NotApplied(Refusal::RootReplaced { .. })), "{outcome:?}");
    assert!(matches!(scene.write("a/file", "x"), Err(Refusal::RootReplaced { .. })));
    no_staged_files(&scene);
}
