//! (T4, L4) An undo happens once or not at all, whoever dies when: at every point that it passes, the process that carries it
//! out, the supervisor, or both are killed, and the file is what one of the two ends makes it.
//!
//! The first pass counts the hits of all points; then each hit is a run of its own.

use std::{
    collections::{BTreeMap, HashMap},
    env, fs,
    path::PathBuf,
    time::Duration,
};

use serde_json::{Value, json};
use tests::{Gateway, Session, tree::snapshot, until};

/// What is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undone {
    /// An edit of a file that was there.
    Edit,
    /// A file that was made, with its directories.
    Creation,
}

struct Scene {
    gateway: Gateway,
    session: Session,
    action: String,
    hits: PathBuf,
    _folder: tempfile::TempDir,
}

type Tree = BTreeMap<String, String>;

impl Scene {
    fn new(what: Undone, crash: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hits = folder.path().join("hits");
        let text = hits.to_str().unwrap().to_owned();
        let gateway =
            Gateway::with(&[("CLAUDE_TOOLS_CRASH_COUNT", &text), ("CLAUDE_TOOLS_CRASH_POINT", crash)]);
        let file = gateway.work.join("a.txt");
        fs::write(&file, "one\r\ntwo").unwrap();
        let mut session = Session::start_as(&gateway.client, &gateway.work, "direct_write");
        let calls = match what {
            Undone::Edit => vec![
                ("Read", json!({"file_path": file})),
                ("Edit", json!({"file_path": file, "old_string": "one", "new_string": "one one"})),
            ],
            Undone::Creation => {
                vec![("Write", json!({"file_path": gateway.work.join("new/deep/b"), "content": "new"}))]
            }
        };
        let results = session.act(&calls);
        let action = results[results.len() - 1]["action_id"].as_str().unwrap().to_owned();
        Self { gateway, session, action, hits, _folder: folder }
    }

    fn undo(&self) -> tests::Ctl {
        self.gateway.ctl(&["undo", &self.session.id, &self.action])
    }

    fn tree(&self) -> Tree {
        snapshot(&self.gateway.work)
    }

    fn outcomes(&self) -> Vec<Value> {
        let records = self.gateway.ctl(&["ledger", &self.session.id]).json["records"].clone();
        records
            .as_array()
            .unwrap()
            .iter()
            .filter(|record| record["entry"] == "undo_receipt" || record["entry"] == "resolved")
            .cloned()
            .collect()
    }
}

/// Every hit while the change is undone, the tree before and the tree after.
fn count(what: Undone) -> (Vec<(String, usize)>, Tree, Tree) {
    let mut scene = Scene::new(what, "none:0");
    let before = scene.tree();
    fs::write(&scene.hits, "").unwrap();
    let done = scene.undo();
    assert_eq!(done.code, 0, "{done:?}");
    let text = fs::read_to_string(&scene.hits).unwrap();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let hits: Vec<_> = text
        .lines()
        .map(|name| {
            let number = numbers.entry(name).or_default();
            *number += 1;
            (name.to_owned(), *number)
        })
        .collect();
    assert!(hits.len() > 12, "the programs were built without their crash points: {hits:?}");
    let after = scene.tree();
    scene.session.stop();
    (hits, before, after)
}

#[expect(clippy::print_stdout, reason = "the matrix is a table to be read")]
fn matrix(what: Undone) {
    let (hits, before, after) = count(what);
    for (point, hit) in hits.iter().filter(|(point, _)| matters(what, point)) {
        let mut scene = Scene::new(what, &format!("{point}:{hit}"));
        assert_eq!(scene.tree(), before);
        fs::write(&scene.hits, "").unwrap();
        let answer = scene.undo();
        fs::rename(&scene.hits, scene.hits.with_extension("over")).unwrap();
        let supervisor_died = point.starts_with("supervisor");
        if supervisor_died {
            until("the supervisor dies", Duration::from_secs(30), || {
                (!scene.gateway.is_alive()).then_some(())
            });
            assert_ne!(answer.code, 0, "{point}:{hit} {answer:?}");
            scene.gateway.start_again();
            scene.session.client = scene.gateway.client.clone();
        }
        let now = scene.tree();
        assert!(now == before || now == after, "{point}:{hit}: half an undo, or something is left: {now:?}");
        // What was answered is what was done; where there was no answer the record tells.
        let applied = now == after;
        if !supervisor_died {
            assert_eq!(answer.code == 0, applied, "{point}:{hit} {answer:?}");
        }
        let outcomes = scene.outcomes();
        assert!(outcomes.len() <= 1, "{point}:{hit}: {outcomes:?}");
        // The same call again does what is left to do, and no harm.
        let again = scene.undo();
        assert_eq!(again.code, 0, "{point}:{hit} {again:?} after {answer:?}");
        let expected = if applied { "already_undone" } else { "applied" };
        assert_eq!(again.json["outcome"], expected, "{point}:{hit} {again:?} after {answer:?}");
        assert_eq!(scene.tree(), after, "{point}:{hit}");
        println!("{what:?} {point}:{hit}: {expected} after {}", outcomes.first().unwrap_or(&Value::Null));
        assert_eq!(scene.gateway.ctl(&["ledger", &scene.session.id, "--verify"]).code, 0);
        scene.session.stop();
        scene.gateway.wait_for_no_runners();
    }
}

/// A creation differs in what the process does; `GATEWAY_MATRIX=all` tries the rest with it too.
fn matters(what: Undone, point: &str) -> bool {
    let all = env::var("GATEWAY_MATRIX").is_ok_and(|asked| asked == "all");
    all || what == Undone::Edit || matches!(point, "worker-after-exchange" | "worker-undo-after-stage")
}

#[test]
fn an_edit_is_undone_once_whoever_dies() {
    matrix(Undone::Edit);
}

#[test]
fn a_creation_is_undone_once_whoever_dies() {
    matrix(Undone::Creation);
}

/// The supervisor dies once it has let the process go, which goes on: the next supervisor waits for its end before it finds out
/// what it did.
#[test]
fn what_an_undo_did_is_not_judged_before_its_process_is_gone() {
    let mut scene = Scene::new(Undone::Edit, "supervisor-undo-after-go:1");
    fs::write(&scene.hits, "").unwrap();
    let cut_off = scene.undo();
    assert_ne!(cut_off.code, 0, "{cut_off:?}");
    fs::rename(&scene.hits, scene.hits.with_extension("over")).unwrap();
    until("the supervisor dies", Duration::from_secs(30), || (!scene.gateway.is_alive()).then_some(()));
    scene.gateway.start_again();
    let again = scene.undo();
    assert_eq!((again.code, &again.json["outcome"]), (0, &json!("already_undone")), "{again:?}");
    assert_eq!(fs::read(scene.gateway.work.join("a.txt")).unwrap(), b"one\r\ntwo");
    let outcomes = scene.outcomes();
    assert_eq!((outcomes.len(), &outcomes[0]["resolution"]), (1, &json!("applied")), "{outcomes:?}");
}
