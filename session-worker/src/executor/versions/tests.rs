//! What keeping versions promises.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt};

use super::*;

fn contents(texts: &[&'static str]) -> Vec<Content<'static>> {
    texts.iter().map(|text| Content::of(text.as_bytes())).collect()
}

fn keep(versions: &Versions, texts: &[&'static str]) -> io::Result<()> {
    versions.begin(&contents(texts))?.finish()
}

/// The contents under their names; a file that was made ahead has none.
fn kept(directory: &Path) -> BTreeSet<String> {
    let paths = fs::read_dir(directory.join(FOLDER)).unwrap().map(|entry| entry.unwrap().path());
    let named = paths.filter(|path| !path.to_str().unwrap().ends_with(UNFINISHED));
    named.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn a_content_is_kept_once_under_its_digest_for_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let versions = Versions::of_session(folder.path(), 100);
    keep(&versions, &["one", "two", "one", ""]).unwrap();
    keep(&versions, &["two"]).unwrap();
    assert_eq!(kept(folder.path()), ["", "one", "two"].map(str::to_owned).into());
    let path = folder.path().join(FOLDER).join(Digest::of(b"one").to_string());
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_oldest_go_first_and_what_is_needed_again_stays() {
    let folder = tempfile::tempdir().unwrap();
    let versions = Versions::of_session(folder.path(), 9);
    keep(&versions, &["aaa", "bbb", "ccc"]).unwrap();
    keep(&versions, &["aaa", "ddd"]).unwrap();
    assert_eq!(kept(folder.path()), ["aaa", "ccc", "ddd"].map(str::to_owned).into());
    let too_large = keep(&versions, &["0123456789"]).unwrap_err();
    assert_eq!(too_large.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(kept(folder.path()).len(), 3, "nothing is dropped for what is not kept");
}

#[test]
fn a_new_process_goes_on_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let first = Versions::of_session(folder.path(), 9);
    keep(&first, &["aaa", "bbb"]).unwrap();
    let old = SystemTime::now() - std::time::Duration::from_secs(60);
    let path = folder.path().join(FOLDER).join(Digest::of(b"bbb").to_string());
    File::open(path).unwrap().set_modified(old).unwrap();
    fs::write(folder.path().join(FOLDER).join(format!("{}.part", Digest::of(b"x"))), "half").unwrap();
    let second = Versions::of_session(folder.path(), 9);
    keep(&second, &["cccccc"]).unwrap();
    assert_eq!(kept(folder.path()), ["aaa", "cccccc"].map(str::to_owned).into());
}

#[test]
fn where_nothing_can_be_kept_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(FOLDER), "a file in the way").unwrap();
    assert!(keep(&Versions::of_session(folder.path(), 9), &["a"]).is_err());
}

#[test]
fn what_is_not_waited_for_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let versions = Versions::of_session(folder.path(), 100);
    keep(&versions, &["one"]).unwrap();
    drop(versions.begin(&contents(&["one", "two"])).unwrap());
    assert_eq!(kept(folder.path()), ["one".to_owned()].into());
    // Neither is it taken for something that is there.
    keep(&versions, &["two"]).unwrap();
    assert_eq!(kept(folder.path()), ["one", "two"].map(str::to_owned).into());
}

#[test]
fn a_version_that_is_needed_is_not_what_makes_room_for_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let versions = Versions::of_session(folder.path(), 6);
    keep(&versions, &["aaa", "bbb"]).unwrap();
    // The older one is the content before this change.
    keep(&versions, &["aaa", "ccc"]).unwrap();
    assert_eq!(kept(folder.path()), ["aaa", "ccc"].map(str::to_owned).into());
}

#[test]
fn what_is_made_ahead_is_used_and_goes_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let files = || fs::read_dir(folder.path().join(FOLDER)).unwrap().count();
    let versions = Versions::of_session(folder.path(), 100);
    versions.prepare();
    versions.prepare();
    assert_eq!(files(), SPARES);
    keep(&versions, &["one", "two"]).unwrap();
    assert_eq!((files(), kept(folder.path()).len()), (2, 2));
    keep(&versions, &["one", "two", "three"]).unwrap();
    versions.prepare();
    assert_eq!((files(), kept(folder.path()).len()), (3 + SPARES, 3));
    keep(&Versions::of_session(folder.path(), 100), &["four"]).unwrap();
    assert_eq!(files(), 4);
}
