use super::*;
use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::Path};

fn path(text: &str) -> AbsolutePath {
    AbsolutePath::new(text).unwrap()
}

#[test]
fn only_absolute_paths_without_climbing_are_taken() {
    for bad in ["", "a", "./a", "../a", "/a/../b", "/..", "/a\0b"] {
        assert!(matches!(AbsolutePath::new(bad), Err(SpecError::Path { .. })), "{bad:?}");
    }
    assert_eq!(path("//a///b/./c/").as_path(), Path::new("/a/b/c"));
    assert_eq!(path("/").as_path(), Path::new("/"));
}

#[test]
fn a_description_survives_the_wire_even_with_names_that_are_not_utf8() {
    let odd = AbsolutePath::new(OsString::from_vec(b"/tmp/\xff\xfe".to_vec())).unwrap();
    let spec = SandboxSpec::command(path("/scratch"), vec![odd]);
    let bytes = serde_json::to_vec(&spec).unwrap();
    assert_eq!(serde_json::from_slice::<SandboxSpec>(&bytes).unwrap(), spec);
}

#[test]
fn a_relative_path_is_refused_on_the_wire_too() {
    let wire = serde_json::to_string(&OsString::from("etc")).unwrap();
    assert!(serde_json::from_str::<AbsolutePath>(&wire).is_err());
}

#[test]
fn contradictions_are_refused() {
    let refused = |spec: SandboxSpec| matches!(spec.validate(), Err(SpecError::Contradiction { .. }));
    assert!(refused(SandboxSpec::command(path("/"), vec![])));
    assert!(refused(SandboxSpec::command(path("/state/scratch"), vec![path("/state")])));
    assert!(refused(SandboxSpec::command(path("/state"), vec![path("/state")])));
    assert!(refused(SandboxSpec::command(path("/scratch"), vec![path("/")])));
    let mut denied = SandboxSpec::command(path("/opt/tool/scratch"), vec![]);
    denied.execution = Execution::AnythingBut(vec![path("/opt/tool")]);
    assert!(refused(denied));
    assert_eq!(SandboxSpec::command(path("/scratch"), vec![path("/scratch2")]).validate(), Ok(()));
    // A protected file inside the scratch is masked there.
    assert_eq!(SandboxSpec::command(path("/scratch"), vec![path("/scratch/link")]).validate(), Ok(()));
}

#[test]
fn too_many_paths_are_refused() {
    let many = (0..=MOST_PATHS).map(|n| path(&format!("/p{n}"))).collect();
    assert!(matches!(
        SandboxSpec::command(path("/scratch"), many).validate(),
        Err(SpecError::TooMany { .. })
    ));
}
