//! A worktree is made beside everything else, and a kill at any moment of it is made good.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{Gateway, Session, key, tree::snapshot, until};

use super::{git, repository};

/// A call that waits for nothing answers within this time on a busy machine.
const PROMPT: Duration = Duration::from_secs(5);

/// Moments at which a supervisor is killed.
const KILLS: u64 = 4;

/// The source without what the session's worktree is in it.
fn of_the_owner(source: &Path) -> std::collections::BTreeMap<String, String> {
    let mut found = snapshot(source);
    found.retain(|path, _| {
        ![".git/worktrees", ".git/refs/heads/gateway", ".git/logs/refs/heads/gateway"]
            .iter()
            .any(|own| path.starts_with(own))
    });
    found
}

fn start(source: &Path, key: &str, seconds: u64) -> Value {
    json!({
        "prompt": "p", "idempotency_key": key, "working_directory": source,
        "capability_profile": "worktree_write", "wait_seconds": seconds,
    })
}

/// A git that stops before it fills a worktree, until it may go on.
struct SlowGit {
    folder: tempfile::TempDir,
}

impl SlowGit {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|place| place.join("git"))
            .find(|git| git.is_file())
            .unwrap();
        let (program, place) = (folder.path().join("git"), folder.path().display());
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *read-tree*-u*) : > '{place}/begun'; while [ ! -e '{place}/go' ]; do sleep 0.05; done;; esac\nexec '{}' \"$@\"\n",
            real.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn gateway(&self) -> Gateway {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        Gateway::with(&[("PATH", &path)])
    }

    fn wait_until_it_fills(&self) {
        let begun = self.folder.path().join("begun");
        until("git fills the worktree", Duration::from_secs(30), || begun.exists().then_some(()));
    }

    fn go_on(&self) {
        fs::write(self.folder.path().join("go"), "").unwrap();
    }
}

#[test]
fn calls_are_answered_while_a_worktree_is_made() {
    let slow = SlowGit::new();
    let gateway = slow.gateway();
    let source = gateway.work.join("source");
    repository(&source);
    let (key, began) = (key(), Instant::now());
    let view = gateway.client.call("native_session_start", &start(&source, &key, 1)).unwrap();
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    assert_eq!(view["status"], "starting", "{view}");
    slow.wait_until_it_fills();
    let mut session = Session::of(&gateway.client, view);
    let began = Instant::now();
    assert_eq!(session.status(0)["status"], "starting");
    let replay = gateway.client.call("native_session_start", &start(&source, &key, 0)).unwrap();
    assert_eq!((&replay["replay"], &replay["native_session_id"]), (&json!(true), &json!(session.id)));
    assert_eq!(gateway.ctl(&["show", &session.id]).json["status"], "starting");
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    slow.go_on();
    session.turn();
    assert_eq!(git(Path::new(session.text("working_directory")), &["status", "--porcelain"]), "");
}

#[test]
fn a_stop_ends_the_making_of_a_worktree_and_leaves_nothing_of_it() {
    let slow = SlowGit::new();
    let gateway = slow.gateway();
    let source = gateway.work.join("source");
    repository(&source);
    let before = snapshot(&source);
    let view = gateway.client.call("native_session_start", &start(&source, &key(), 0)).unwrap();
    slow.wait_until_it_fills();
    let mut session = Session::of(&gateway.client, view);
    let began = Instant::now();
    assert_eq!(session.stop()["status"], "stopped");
    assert!(began.elapsed() < 2 * PROMPT, "{:?}", began.elapsed());
    let root = PathBuf::from(session.text("working_directory"));
    assert!(!root.exists(), "the half worktree stays");
    assert_eq!(snapshot(&source), before);
    let place = slow.folder.path().display().to_string();
    let left = tests::processes::naming(&place).into_iter().filter(|process| process.pid != gateway.pid());
    assert_eq!(left.collect::<Vec<_>>(), [], "a git was left running");
    assert_eq!(gateway.ctl(&["worktree", "list"]).json, json!({"worktrees": []}));
}

/// Sends the start again until the session has its turn.
fn until_it_works(gateway: &Gateway, source: &Path, key: &str) -> Session {
    let view = gateway.client.call("native_session_start", &start(source, key, 50)).unwrap();
    let mut session = Session::of(&gateway.client, view);
    session.recover(&tests::key(), 0).unwrap();
    session.turn();
    session
}

fn is_whole(session: &Session, source: &Path, before: &std::collections::BTreeMap<String, String>) {
    let workspace = &session.view["workspace"];
    let root = Path::new(workspace["root"].as_str().unwrap());
    assert_eq!(git(root, &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(git(root, &["rev-parse", "HEAD"]).trim(), workspace["base_commit"]);
    assert_eq!(git(root, &["symbolic-ref", "--short", "HEAD"]).trim(), workspace["branch"]);
    assert_eq!(git(source, &["worktree", "list"]).lines().count(), 2);
    assert_eq!(&of_the_owner(source), before);
}

#[test]
fn a_supervisor_killed_while_it_makes_a_worktree_makes_it_whole_when_it_is_back() {
    for kill in 0..KILLS {
        let mut gateway = Gateway::start();
        let source = gateway.work.join("source");
        repository(&source);
        for file in 0..1_000 {
            fs::write(source.join(format!("{file}.txt")), format!("{file}\n").repeat(200)).unwrap();
        }
        fs::remove_dir_all(source.join(".git/hooks")).unwrap();
        git(&source, &["add", "-A"]);
        git(&source, &["commit", "-qm", "many"]);
        let (before, key) = (snapshot(&source), key());
        gateway.client.call("native_session_start", &start(&source, &key, 0)).unwrap();
        // Git itself goes on, as the orphan that it then is.
        std::thread::sleep(Duration::from_millis(kill * 25));
        gateway.restart();
        let mut session = until_it_works(&gateway, &source, &key);
        is_whole(&session, &source, &before);
        session.stop();
    }
}

#[cfg(feature = "crash-points")]
#[test]
fn a_crash_at_every_point_of_the_making_and_of_its_clearing_is_made_good() {
    for (point, stops) in [
        ("supervisor-before-worktree", false),
        ("supervisor-after-worktree-entry", false),
        ("supervisor-after-worktree-files", false),
        ("supervisor-after-worktree-folder-cleared", true),
        ("supervisor-after-worktree-entry-cleared", true),
    ] {
        let slow = SlowGit::new();
        let hits = slow.folder.path().join("hits");
        let path = format!("{}:{}", slow.folder.path().display(), std::env::var("PATH").unwrap());
        let mut gateway = Gateway::with(&[
            ("PATH", &path),
            ("CLAUDE_TOOLS_CRASH_POINT", &format!("{point}:1")),
            ("CLAUDE_TOOLS_CRASH_COUNT", hits.to_str().unwrap()),
        ]);
        let source = gateway.work.join("source");
        repository(&source);
        let (before, key) = (snapshot(&source), key());
        if !stops {
            slow.go_on();
            fs::write(&hits, "").unwrap();
        }
        // It may die before it answers.
        let begun = gateway.client.call("native_session_start", &start(&source, &key, 0));
        if stops {
            slow.wait_until_it_fills();
            fs::write(&hits, "").unwrap();
            let mut session = Session::of(&gateway.client, begun.unwrap());
            let stop = session.call("native_session_stop", &json!({"request_id": "s"}));
            assert!(stop.is_err(), "{point}: it did not die");
        }
        until("it dies there", Duration::from_secs(30), || (!gateway.is_alive()).then_some(()));
        gateway.start_again();
        if stops {
            let view = gateway.client.call("native_session_start", &start(&source, &key, 0)).unwrap();
            let mut session = Session::of(&gateway.client, view);
            session.wait_for_status("stopped");
            assert_eq!(snapshot(&source), before, "{point}");
            assert!(!Path::new(session.text("working_directory")).exists(), "{point}");
        } else {
            let session = until_it_works(&gateway, &source, &key);
            is_whole(&session, &source, &before);
        }
    }
}
