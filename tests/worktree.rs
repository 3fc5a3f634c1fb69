//! (P1) A session in a worktree of its own leaves the source as it is, byte for byte.

mod making;
mod taking_over;

use std::{fs, path::Path};

use serde_json::json;
use tests::{Gateway, Session, delegation::git, key, tree::snapshot};

/// A repository whose hooks tell that they ran.
fn repository(source: &Path) {
    fs::create_dir(source).unwrap();
    git(source, &["init", "-q", "-b", "main"]);
    fs::write(source.join("a.txt"), "one\r\ntwo\n").unwrap();
    git(source, &["add", "-A"]);
    git(source, &["commit", "-qm", "first"]);
    for hook in ["post-checkout", "reference-transaction"] {
        let path = source.join(".git/hooks").join(hook);
        fs::write(&path, format!("#!/bin/sh\ntouch '{}/ran-{hook}'\n", source.parent().unwrap().display()))
            .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
    }
}

#[test]
fn the_source_stays_byte_for_byte_and_the_work_is_kept() {
    let gateway = Gateway::start();
    let source = gateway.work.join("source");
    repository(&source);
    let before = snapshot(&source);
    let mut session = Session::start_as(&gateway.client, &source, "worktree_write");
    let workspace = session.view["workspace"].clone();
    let root = Path::new(workspace["root"].as_str().unwrap()).to_owned();
    assert_eq!(workspace["kind"], "worktree", "{workspace}");
    let branch = workspace["branch"].as_str().unwrap().to_owned();
    assert!(branch.starts_with("gateway/"), "{branch}");
    let file = root.join("a.txt");
    let results = session.act(&[
        ("Read", json!({"file_path": file})),
        ("Edit", json!({"file_path": file, "old_string": "two", "new_string": "2"})),
        ("Write", json!({"file_path": root.join("new/b.txt"), "content": "b"})),
        ("Write", json!({"file_path": source.join("b.txt"), "content": "b"})),
        ("Write", json!({"file_path": root.join(".git"), "content": "b"})),
    ]);
    let errors: Vec<_> = results.iter().map(|result| result["is_error"].as_bool().unwrap()).collect();
    assert_eq!(errors, [false, false, false, true, true], "{results:?}");
    assert_eq!(fs::read(&file).unwrap(), b"one\r\n2\n");
    session.finish("done");
    session.stop();
    session.wait_for_status("stopped");
    assert_eq!(fs::read(root.join("new/b.txt")).unwrap(), b"b", "the worktree is kept");
    assert!(git(&root, &["status", "--porcelain"]).contains("a.txt"));

    // Nothing but the new branch, its log and the worktree's own entry is new in the source.
    let mut after = snapshot(&source);
    after.retain(|path, _| {
        !path.starts_with(".git/worktrees")
            && !path.starts_with(".git/refs/heads/gateway")
            && !path.starts_with(".git/logs/refs/heads/gateway")
    });
    assert_eq!(after, before);
    assert_eq!(fs::read_dir(&gateway.work).unwrap().count(), 1, "no hook ran");
}

#[test]
fn its_owner_sees_a_worktree_and_removes_it_when_nothing_would_be_lost() {
    let gateway = Gateway::start();
    let source = gateway.work.join("source");
    repository(&source);
    let before = snapshot(&source);
    let mut session = Session::start_as(&gateway.client, &source, "worktree_write");
    let root = Path::new(session.view["workspace"]["root"].as_str().unwrap()).to_owned();
    session.act(&[("Write", json!({"file_path": root.join("b.txt"), "content": "b"}))]);
    let listed = gateway.ctl(&["worktree", "list"]).json["worktrees"].clone();
    assert_eq!(listed[0]["path"], json!(root), "{listed}");
    assert!(listed[0]["take_over"].as_str().unwrap().contains("merge gateway/"), "{listed}");
    let remove = |code: &str| {
        let ctl = gateway.ctl(&["worktree", "remove", &session.id]);
        assert_eq!((ctl.code, &ctl.json["error"]["code"]), (1, &json!(code)), "{ctl:?}");
        assert!(root.join("b.txt").exists());
    };
    remove("busy");
    assert_eq!(gateway.ctl(&["stop", &session.id]).code, 0);
    remove("busy");
    fs::remove_file(root.join("b.txt")).unwrap();
    let ctl = gateway.ctl(&["worktree", "remove", &session.id]);
    assert_eq!(ctl.code, 0, "{ctl:?}");
    assert!(!root.exists());
    assert_eq!(git(&source, &["branch", "--list", "gateway/*"]), "");
    let mut after = snapshot(&source);
    // Empty folders and the log of a branch that is gone may stay.
    after.retain(|path, _| !path.contains("gateway") && path != ".git/worktrees");
    assert_eq!(after, before);
    assert_eq!(gateway.ctl(&["worktree", "list"]).json, json!({"worktrees": []}));
}

#[test]
fn what_does_not_suit_is_refused_before_there_is_a_session() {
    let gateway = Gateway::start();
    let (plain, dirty) = (gateway.work.join("plain"), gateway.work.join("dirty"));
    fs::create_dir(&plain).unwrap();
    repository(&dirty);
    fs::write(dirty.join("a.txt"), "changed").unwrap();
    for directory in [&plain, &dirty] {
        let start = json!({
            "prompt": "p", "idempotency_key": key(), "working_directory": directory,
            "capability_profile": "worktree_write", "wait_seconds": 0,
        });
        let refusal = gateway.client.refused("native_session_start", &start);
        assert_eq!(refusal.code, "invalid_argument", "{directory:?}");
    }
    assert_eq!(gateway.ctl(&["sessions"]).json["sessions"], json!([]));
}
