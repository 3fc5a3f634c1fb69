use std::{
    collections::BTreeMap, ffi::OsString, fs, net::TcpListener, os::unix::fs::PermissionsExt, path::Path,
};

use super::*;

/// A gateway's settings below `root`, with Claude Code replaced by a script that says `version`.
fn settings(root: &Path, version: &str) -> Config {
    let claude = root.join("claude");
    fs::write(&claude, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let variables = [
        ("HOME", root.into()),
        ("CLAUDE_TOOLS_STATE_DIR", root.join("state").into()),
        ("CLAUDE_TOOLS_LISTEN", OsString::from("127.0.0.1:0")),
        ("CLAUDE_BIN", claude.into()),
    ];
    let variables: BTreeMap<OsString, OsString> = variables.map(|(name, value)| (name.into(), value)).into();
    Config::from_environment(variables).unwrap()
}

fn verdict(config: &Config, name: &str) -> (Verdict, String) {
    let report = examine(config);
    let checks = report.json["checks"].as_array().unwrap();
    let check =
        checks.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("no check {name}: {checks:?}"));
    let verdict = match check["verdict"].as_str().unwrap() {
        "good" => Verdict::Good,
        "care" => Verdict::Care,
        _ => Verdict::Bad,
    };
    assert_eq!(verdict == Verdict::Good, check["mend"].is_null(), "what is not good says what mends it");
    assert_eq!(report.code == 0, report.json["healthy"] == true);
    (verdict, check.to_string())
}

#[test]
fn before_the_first_start_nothing_is_wrong() {
    let root = tempfile::tempdir().unwrap();
    let config = settings(root.path(), "2.1.247 (Claude Code)");
    let report = examine(&config);
    // No worker stands beside a unit test's program, and the doctor says so; all else is well.
    let bad: Vec<_> =
        report.json["checks"].as_array().unwrap().iter().filter(|c| c["verdict"] == "bad").collect();
    assert!(bad.iter().all(|check| check["name"] == "walls"), "{bad:?}");
    assert_eq!(verdict(&config, "gateway").0, Verdict::Care);
    assert!(!config.state.exists(), "the doctor only looks");
}

#[test]
fn claude_codes_version_is_judged() {
    let root = tempfile::tempdir().unwrap();
    for (version, expected) in
        [("2.1.332 (Claude Code)", Verdict::Good), ("9.9.9 (Claude Code)", Verdict::Care), ("", Verdict::Bad)]
    {
        assert_eq!(verdict(&settings(root.path(), version), "claude code").0, expected, "{version}");
    }
    let config = settings(root.path(), "");
    fs::write(root.path().join("claude"), "no program").unwrap();
    assert_eq!(verdict(&config, "claude code").0, Verdict::Bad);
    fs::remove_file(root.path().join("claude")).unwrap();
    assert_eq!(verdict(&config, "claude code").0, Verdict::Bad);
}

#[test]
fn open_permissions_and_a_broken_token_are_named_with_their_mend() {
    let root = tempfile::tempdir().unwrap();
    let config = settings(root.path(), "2.1.247");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(&config.state).unwrap();
    mode(&config.state, 0o755);
    assert!(verdict(&config, "state directory").1.contains("chmod 700"));
    mode(&config.state, 0o700);
    assert_eq!(verdict(&config, "state directory").0, Verdict::Good);
    let token = config.state.join("token");
    fs::write(&token, "short").unwrap();
    mode(&token, 0o644);
    assert!(verdict(&config, "token").1.contains("chmod 600"));
    assert_eq!(verdict(&config, "state permissions").0, Verdict::Bad);
    mode(&token, 0o600);
    assert_eq!(verdict(&config, "token").0, Verdict::Bad);
    fs::write(&token, "a".repeat(64)).unwrap();
    assert_eq!(verdict(&config, "token").0, Verdict::Good);
}

#[test]
fn a_taken_port_is_named() {
    let root = tempfile::tempdir().unwrap();
    let mut config = settings(root.path(), "2.1.247");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    config.listen = other.local_addr().unwrap();
    assert_eq!(verdict(&config, "address").0, Verdict::Bad);
}
