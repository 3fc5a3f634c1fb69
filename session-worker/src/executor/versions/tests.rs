//! What keeping versions promises.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt};

use super::*;

fn contents(texts: &[&'static str]) -> Vec<(Digest, &'static [u8])> {
    texts.iter().map(|text| (Digest::of(text.as_bytes()), text.as_bytes())).collect()
}

fn kept(directory: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(directory.join(FOLDER)).unwrap();
    names.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn a_content_is_kept_once_under_its_digest_for_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let versions = Versions::of_session(folder.path(), 100);
    versions.keep(&contents(&["one", "two", "one", ""])).unwrap();
    versions.keep(&contents(&["two"])).unwrap();
    assert_eq!(kept(folder.path()), ["", "one", "two"].map(str::to_owned).into());
    let path = folder.path().join(FOLDER).join(Digest::of(b"one").to_string());
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_oldest_go_first_and_what_is_needed_again_stays() {
    let folder = tempfile::tempdir().unwrap();
    let versions = Versions::of_session(folder.path(), 9);
    versions.keep(&contents(&["aaa", "bbb", "ccc"])).unwrap();
    versions.keep(&contents(&["aaa", "ddd"])).unwrap();
    assert_eq!(kept(folder.path()), ["aaa", "ccc", "ddd"].map(str::to_owned).into());
    let too_large = versions.keep(&contents(&["0123456789"])).unwrap_err();
    assert_eq!(too_large.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(kept(folder.path()).len(), 3, "nothing is dropped for what is not kept");
}

#[test]
fn a_new_process_goes_on_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let first = Versions::of_session(folder.path(), 9);
    first.keep(&contents(&["aaa", "bbb"])).unwrap();
    let old = SystemTime::now() - std::time::Duration::from_secs(60);
    let path = folder.path().join(FOLDER).join(Digest::of(b"bbb").to_string());
    File::open(path).unwrap().set_modified(old).unwrap();
    fs::write(folder.path().join(FOLDER).join(format!("{}.part", Digest::of(b"x"))), "half").unwrap();
    let second = Versions::of_session(folder.path(), 9);
    second.keep(&contents(&["cccccc"])).unwrap();
    assert_eq!(kept(folder.path()), ["aaa", "cccccc"].map(str::to_owned).into());
}

#[test]
fn where_nothing_can_be_kept_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(FOLDER), "a file in the way").unwrap();
    assert!(Versions::of_session(folder.path(), 9).keep(&contents(&["a"])).is_err());
}
