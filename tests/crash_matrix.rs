//! (T4, L2, L4) A write happens once, whoever dies when: at every point where something becomes durable or visible, the
//! worker, the supervisor, or both are killed, and the end is the same tree as without.
//!
//! The first pass of a scenario counts the hits of all points while the action is carried out; then each hit is a run of its
//! own. `GATEWAY_MATRIX=all` runs every tool in both profiles with every victim.

use std::{
    collections::{BTreeMap, HashMap},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tests::{Gateway, Session, key, processes::Process, tree::snapshot, until};

/// A recovered session is looked at this often before it counts as stuck.
const LOOKS: usize = 40;

/// What is written, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scenario {
    tool: &'static str,
    profile: &'static str,
}

/// Who dies at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    /// The process that has the point.
    Owner,
    /// And the other one with it.
    Both,
}

/// A gateway with one session that is about to act.
struct Scene {
    gateway: Gateway,
    session: Session,
    root: PathBuf,
    hits: PathBuf,
    /// Keeps the file of hits.
    _folder: tempfile::TempDir,
}

impl Scenario {
    fn call(self, root: &Path) -> (&'static str, Value) {
        let input = match self.tool {
            // Done twice it would show.
            "Edit" => json!({"file_path": root.join("a.txt"), "old_string": "one", "new_string": "one one"}),
            "Write" => json!({"file_path": root.join("new/deep/b.txt"), "content": "new"}),
            _ => json!({
                "notebook_path": root.join("n.ipynb"), "cell_id": "a", "new_source": "y", "edit_mode": "insert",
            }),
        };
        (self.tool, input)
    }

    fn begin(self, crash: &str) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let hits = folder.path().join("hits");
        let text = hits.to_str().unwrap().to_owned();
        let gateway =
            Gateway::with(&[("CLAUDE_TOOLS_CRASH_COUNT", &text), ("CLAUDE_TOOLS_CRASH_POINT", crash)]);
        let source = gateway.work.join("project");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("a.txt"), "one\r\ntwo").unwrap();
        let cell = json!({"cell_type": "raw", "id": "a", "metadata": {}, "source": "x"});
        let notebook = json!({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
        fs::write(source.join("n.ipynb"), notebook.to_string()).unwrap();
        if self.profile == "worktree_write" {
            for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
                let mut git = Command::new("git");
                git.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(arguments);
                assert!(git.current_dir(&source).env("HOME", &source).status().unwrap().success());
            }
        }
        let mut session = Session::start_as(&gateway.client, &source, self.profile);
        let root = PathBuf::from(session.view["workspace"]["root"].as_str().unwrap());
        let reads = ["a.txt", "n.ipynb"].map(|name| ("Read", json!({"file_path": root.join(name)})));
        session.act(&reads);
        Scene { gateway, session, root, hits, _folder: folder }
    }
}

impl Scene {
    /// A new lease, from a supervisor that may have to be started again first.
    fn recover(&mut self) {
        until("a lease", Duration::from_secs(60), || {
            if !self.gateway.is_alive() {
                self.gateway.restart();
                self.session.client = self.gateway.client.clone();
            }
            // One that is dying in this moment resets the connection.
            self.session.recover(&key(), 20).is_ok().then_some(())
        });
    }

    /// From here on hits count.
    fn arm(&self) {
        fs::write(&self.hits, "").unwrap();
    }

    /// Nobody dies any more. A process that is in the middle of it may still.
    fn disarm(&self) {
        fs::rename(&self.hits, self.hits.with_extension("over")).unwrap();
    }

    fn hits(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.hits).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn tree(&self) -> BTreeMap<String, String> {
        let mut tree = snapshot(&self.root);
        // A worktree's link names a folder of this run.
        tree.retain(|path, _| !path.starts_with(".git"));
        tree
    }
}

/// Every hit while the action is carried out and its result goes to Claude Code, and the tree at the end.
fn count(scenario: Scenario) -> (Vec<(String, usize)>, BTreeMap<String, String>) {
    let mut scene = scenario.begin("none:0");
    scene.arm();
    let results = scene.session.act(&[scenario.call(&scene.root)]);
    assert_eq!(results[0]["is_error"], false, "{results:?}");
    let all = scene.hits();
    assert!(all.len() > 10, "the programs were built without their crash points: {all:?}");
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let numbered: Vec<_> = all
        .iter()
        .map(|name| {
            let number = numbers.entry(name).or_default();
            *number += 1;
            (name.clone(), *number)
        })
        .collect();
    let tree = scene.tree();
    scene.session.stop();
    (numbered, tree)
}

/// Kills at one hit and brings the session to its end: what its receipt or its recovery said.
fn cell(
    scenario: Scenario,
    (point, hit): (&str, usize),
    victim: Victim,
) -> (BTreeMap<String, String>, String) {
    let mut scene = scenario.begin(&format!("{point}:{hit}"));
    let worker = scene.gateway.runners().into_iter().find(Process::is_worker);
    let turn = scene.session.turn();
    scene.arm();
    let (name, input) = scenario.call(&scene.root);
    let reply = json!({
        "turn_id": turn["turn_id"], "reply_id": key(), "wait_seconds": 20,
        "tool_calls": [{"name": name, "input": input}],
    });
    let (client, arguments) = (scene.gateway.client.clone(), scene.session.arguments(&reply));
    let sent = thread::spawn(move || client.call("native_session_reply_and_wait", &arguments).is_ok());
    let worker = worker.unwrap();
    until("somebody dies, or the call returns", Duration::from_secs(60), || {
        let gone = !scene.gateway.runners().iter().any(|process| process.pid == worker.pid);
        (!scene.gateway.is_alive() || gone || sent.is_finished()).then_some(())
    });
    if victim == Victim::Both {
        worker.kill();
        scene.gateway.kill();
    }
    let _ = sent.join();
    scene.disarm();
    scene.recover();
    let told = settle(&mut scene, scenario, (&reply, &turn));
    let tree = scene.tree();
    scene.session.stop();
    scene.gateway.wait_for_no_runners();
    (tree, told)
}

/// What a client does that lost its answer: recovers, sends the same reply again, or goes on where the run was lost.
fn settle(scene: &mut Scene, scenario: Scenario, (reply, answered): (&Value, &Value)) -> String {
    let session = &mut scene.session;
    for _ in 0..LOOKS {
        let turn = session.view["pending_turn"].clone();
        if turn["turn_id"] == answered["turn_id"] && !turn.is_null() {
            // Refused or taken: the next look tells.
            let _ = session.call("native_session_reply_and_wait", reply).map(|_| ());
        } else if !turn.is_null() {
            assert_eq!(turn["tool_results"][0]["is_error"], false, "{turn}");
            return "carried on".to_owned();
        } else if session.text("status") == "idle" {
            session.go_on("again");
            let turn = session.turn();
            let told = turn["recovered_actions"].as_array().cloned().unwrap_or_default();
            let last = told.last().cloned().unwrap_or_default();
            let resolution = last["outcome"].as_str().unwrap_or("untold").to_owned();
            if matches!(resolution.as_str(), "not_applied" | "not_started") || told.is_empty() {
                let results = session.act(&[scenario.call(&scene.root)]);
                assert_eq!(results[0]["is_error"], false, "{results:?} after {told:?}");
            }
            return resolution;
        }
        session.status(5);
    }
    panic!("stuck: {}", session.view)
}

#[expect(clippy::print_stdout, reason = "the matrix is a table to be read")]
fn matrix(scenario: Scenario, victims: &[Victim]) {
    let (hits, expected) = count(scenario);
    for (point, hit) in hits.iter().filter(|hit| asked_for_all() || is_of_the_write(hit)) {
        for victim in victims {
            let (tree, told) = cell(scenario, (point, *hit), *victim);
            println!("{} {} {point}:{hit} {victim:?}: {told}", scenario.tool, scenario.profile);
            assert_eq!(tree, expected, "{scenario:?} {point}:{hit} {victim:?}: {told}");
        }
    }
}

/// The worker's points, and the supervisor's while it records the preparation and the receipt: not the reply and the turn,
/// which other promises kill.
fn is_of_the_write((point, hit): &(String, usize)) -> bool {
    point.starts_with("worker") || (2..=3).contains(hit)
}

fn asked_for_all() -> bool {
    env::var("GATEWAY_MATRIX").is_ok_and(|asked| asked == "all")
}

#[test]
fn an_edit_happens_once_whoever_dies() {
    let scenario = Scenario { tool: "Edit", profile: "direct_write" };
    let victims: &[Victim] = if asked_for_all() { &[Victim::Owner, Victim::Both] } else { &[Victim::Owner] };
    matrix(scenario, victims);
}

#[test]
fn every_write_in_every_profile_happens_once_whoever_dies() {
    let whole = [
        ("Write", "direct_write"),
        ("NotebookEdit", "direct_write"),
        ("Edit", "worktree_write"),
        ("Write", "worktree_write"),
        ("NotebookEdit", "worktree_write"),
    ];
    if asked_for_all() {
        for (tool, profile) in whole {
            matrix(Scenario { tool, profile }, &[Victim::Owner, Victim::Both]);
        }
        return;
    }
    // The moments that differ for a new file, and one with both dead.
    let scenario = Scenario { tool: "Write", profile: "worktree_write" };
    let (hits, expected) = count(scenario);
    for point in [
        "worker-after-stage",
        "worker-after-prepared-acknowledged",
        "worker-after-exchange",
        "supervisor-after-sync",
    ] {
        let hit = hits.iter().find(|(name, _)| name == point).expect("the point is passed");
        let (tree, told) = cell(scenario, (&hit.0, hit.1), Victim::Both);
        assert_eq!(tree, expected, "{hit:?}: {told}");
    }
}
