//! (R3) A session that rests says how its owner takes the work over, and a removal is on record.

use std::{fs, path::Path, process::Command};

use serde_json::json;
use tests::{Gateway, Session};

use super::{git, repository};

/// The commands between backquotes.
fn commands(note: &str) -> Vec<String> {
    note.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn worktree_note(view: &serde_json::Value) -> Option<String> {
    let notes = view["workspace"]["notes"].as_array().unwrap().iter();
    notes.filter_map(|note| note.as_str()).find(|note| note.contains("worktree")).map(str::to_owned)
}

#[test]
fn what_it_says_works_as_it_stands_and_the_removal_is_recorded() {
    let gateway = Gateway::start();
    let source = gateway.work.join("it's a \"source\"");
    repository(&source);
    fs::remove_dir_all(source.join(".git/hooks")).unwrap();
    let mut session = Session::start_as(&gateway.client, &source, "worktree_write");
    let root = Path::new(session.text("working_directory")).to_owned();
    assert_eq!(worktree_note(&session.view), None, "nothing is to be taken over yet");
    session.act(&[("Write", json!({"file_path": root.join("b.txt"), "content": "b"}))]);
    session.finish("done");
    let note = worktree_note(&session.view).unwrap();
    let shown = gateway.ctl(&["show", &session.id]).json;
    assert_eq!(worktree_note(&shown), Some(note.clone()));
    let said = commands(&note);
    assert_eq!(said.len(), 3, "{note}");
    for command in &said[..2] {
        let status = Command::new("sh")
            .args(["-c", command])
            .env("HOME", &gateway.work)
            .envs(
                ["AUTHOR", "COMMITTER"]
                    .into_iter()
                    .flat_map(|who| [(format!("GIT_{who}_NAME"), "x"), (format!("GIT_{who}_EMAIL"), "x@x")]),
            )
            .env("GIT_EDITOR", "printf 'work\\n' >")
            .status()
            .unwrap();
        assert!(status.success(), "{command}");
    }
    assert_eq!(fs::read(source.join("b.txt")).unwrap(), b"b");
    session.stop();
    let ctl = gateway.ctl(&["worktree", "remove", &session.id]);
    assert_eq!(ctl.code, 0, "{ctl:?}");
    assert_eq!(gateway.ctl(&["worktree", "remove", &session.id]).code, 0, "it is done");
    let tip = git(&source, &["rev-parse", "HEAD"]);
    let note = worktree_note(&gateway.ctl(&["show", &session.id]).json).unwrap();
    assert!(note.contains("removed") && note.contains(tip.trim()), "{note}");
}

#[cfg(feature = "crash-points")]
#[test]
fn a_removal_that_a_crash_interrupts_is_completed_by_the_same_command() {
    for (point, is_left) in
        [("supervisor-before-worktree-removal", true), ("supervisor-after-worktree-removal", false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let hits = folder.path().join("hits");
        let mut gateway = Gateway::with(&[
            ("CLAUDE_TOOLS_CRASH_POINT", &format!("{point}:1")),
            ("CLAUDE_TOOLS_CRASH_COUNT", hits.to_str().unwrap()),
        ]);
        let source = gateway.work.join("source");
        repository(&source);
        let mut session = Session::start_as(&gateway.client, &source, "worktree_write");
        let root = Path::new(session.text("working_directory")).to_owned();
        session.stop();
        fs::write(&hits, "").unwrap();
        assert_ne!(gateway.ctl(&["worktree", "remove", &session.id]).code, 0);
        gateway.restart();
        assert_eq!(root.exists(), is_left, "{point}");
        let listed = gateway.ctl(&["worktree", "list"]).json["worktrees"].clone();
        assert_eq!(listed[0]["removal_interrupted"], true, "{point}: {listed}");
        assert_eq!(gateway.ctl(&["worktree", "remove", &session.id]).code, 0, "{point}");
        assert!(!root.exists(), "{point}");
        assert_eq!(git(&source, &["branch", "--list", "gateway/*"]), "", "{point}");
        assert_eq!(gateway.ctl(&["worktree", "list"]).json, json!({"worktrees": []}), "{point}");
    }
}
