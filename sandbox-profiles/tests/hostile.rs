//! Every escape by name, from both cages, as this user and, where this user is root, as an ordinary one.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "support/house.rs"]
#[expect(dead_code, reason = "the house is furnished for every test; this one uses a part of it")]
mod house;

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::Command,
};

#[test]
fn no_attack_gets_through() {
    let output = Command::new(house::hostile()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("# 0 visits"), "{said}");
}

#[test]
fn no_attack_of_an_ordinary_user_gets_through() {
    if !nix::unistd::getuid().is_root() {
        return; // this user is an ordinary one: the other test was theirs
    }
    // Copied, because an ordinary user may not be able to reach the build folder.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("hostile");
    fs::copy(house::hostile(), &program).unwrap();
    let output = Command::new(&program).uid(4242).gid(4242).env("TMPDIR", "/tmp").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("# 0 visits"), "{said}");
}
