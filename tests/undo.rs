//! (R3, X7, T4, L4) The owner takes one change back: exactly, only where nothing was changed since, recorded like every action,
//! and once, whoever dies when.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tests::{
    Answer, Ctl, Gateway, Session,
    calls::{edit, read, write},
    tree::snapshot,
    until,
};

use crate::ledger::delegating;

/// Carries out calls that must succeed: their action ids.
#[track_caller]
fn act(session: &mut Session, calls: &[(&str, Value)]) -> Vec<String> {
    let results = session.act(calls);
    results.iter().for_each(|result| assert_eq!(result["is_error"], false, "{result}"));
    results.iter().map(|result| result["action_id"].as_str().unwrap().to_owned()).collect()
}

fn undo(gateway: &Gateway, session: &Session, action: &str) -> Ctl {
    gateway.ctl(&["undo", &session.id, action])
}

/// The undo's own action.
#[track_caller]
fn undone(ctl: &Ctl) -> String {
    assert_eq!((ctl.code, &ctl.json["outcome"]), (0, &json!("applied")), "{ctl:?}");
    ctl.json["action_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn refused(ctl: &Ctl, code: &str) -> String {
    assert_eq!((ctl.code, &ctl.json["error"]["code"]), (1, &json!(code)), "{ctl:?}");
    let text = |field: &str| ctl.json["error"][field].as_str().unwrap_or_default().to_owned();
    assert!(!text("next").is_empty(), "{ctl:?}");
    text("message")
}

/// A session that writes in the gateway's work folder.
fn writer(gateway: &Gateway) -> Session {
    Session::start_as(&gateway.client, &gateway.work, "direct_write")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Everything in the project, and nothing of ours beside it.
#[track_caller]
fn only(folder: &Path, names: &[&str]) {
    let tree = snapshot(folder);
    let found: Vec<&str> = tree.keys().map(String::as_str).collect();
    assert_eq!(found, names);
}

#[test]
fn the_bytes_from_before_come_back_and_the_undo_is_an_action_itself() {
    let gateway = Gateway::start();
    let file = gateway.work.join("a.txt");
    let before = b"\xef\xbb\xbfone\r\ntwo\nthree";
    fs::write(&file, before).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let mut session = writer(&gateway);
    let ids = act(&mut session, &[read(&file), edit(&file, "two", "2")]);
    let after = fs::read(&file).unwrap();

    let done = undo(&gateway, &session, &ids[1][..14]);
    let first = undone(&done);
    assert_eq!((&done.json["undoes"], &done.json["path"]), (&json!(ids[1]), &json!(file)), "{done:?}");
    assert_eq!((fs::read(&file).unwrap(), mode(&file)), (before.to_vec(), 0o640));
    // The answer may have been lost: asked again, it says so and does nothing.
    let again = undo(&gateway, &session, &ids[1]);
    assert_eq!((again.code, &again.json["outcome"]), (0, &json!("already_undone")), "{again:?}");
    assert_eq!(again.json["action_id"], json!(first));

    // The session has not seen these bytes.
    let stale = session.act(&[edit(&file, "two", "again")]);
    assert!(stale[0]["content"].as_str().unwrap().starts_with("stale_read"), "{stale:?}");

    let second = undone(&undo(&gateway, &session, &first));
    assert_eq!((fs::read(&file).unwrap(), mode(&file)), (after.clone(), 0o640));
    // What stands there is what the session wrote: it may go on.
    act(&mut session, &[edit(&file, "2", "II")]);
    let changes = gateway.ctl(&["ledger", &session.id, "--diff"]).json["changes"].clone();
    let link = |at: usize, field: &str| changes[at][field].clone();
    assert_eq!((link(1, "undoes"), link(1, "undone_by")), (json!(ids[1]), json!(second)), "{changes}");
    assert_eq!((link(0, "undone_by"), link(2, "undoes")), (Value::Null, json!(first)), "{changes}");
    assert!(link(1, "diff").as_str().unwrap().contains("-2\n+two\n"), "{changes}");
    assert_eq!(gateway.ctl(&["ledger", &session.id, "--verify"]).code, 0);
    assert_eq!(gateway.ctl(&["show", &session.id]).code, 0);
    only(&gateway.work, &["a.txt"]);
    session.finish("done");
    session.stop();
}

#[test]
fn what_was_changed_since_is_not_touched_and_the_way_on_is_told() {
    let gateway = Gateway::start();
    let file = gateway.work.join("a.txt");
    fs::write(&file, "one\n").unwrap();
    let mut session = writer(&gateway);
    let ids = act(&mut session, &[read(&file), edit(&file, "one", "two"), edit(&file, "two", "three")]);
    let early = undo(&gateway, &session, &ids[1]);
    assert!(refused(&early, "stale_read").contains("SHA-256"), "{early:?}");
    let next = early.json["error"]["next"].as_str().unwrap();
    assert!(next.contains(&ids[2]), "the later change comes first: {next}");
    assert_eq!(fs::read(&file).unwrap(), b"three\n");
    undone(&undo(&gateway, &session, &ids[2]));
    undone(&undo(&gateway, &session, &ids[1]));
    assert_eq!(fs::read(&file).unwrap(), b"one\n");

    let ids = act(&mut session, &[read(&file), edit(&file, "one", "two")]);
    fs::write(&file, "theirs\n").unwrap();
    let late = undo(&gateway, &session, &ids[1]);
    refused(&late, "stale_read");
    assert!(late.json["error"]["next"].as_str().unwrap().contains("outside this session"), "{late:?}");
    fs::remove_file(&file).unwrap();
    assert!(refused(&undo(&gateway, &session, &ids[1]), "stale_read").contains("no file is there"));
    fs::create_dir(&file).unwrap();
    refused(&undo(&gateway, &session, &ids[1]), "not_applied");
    only(&gateway.work, &["a.txt"]);
    session.stop();
}

#[test]
fn a_file_that_an_action_made_goes_with_the_directories_made_for_it() {
    let gateway = Gateway::start();
    let file = gateway.work.join("new/deep/a.sh");
    let mut session = writer(&gateway);
    let made = act(&mut session, &[write(&file, "one\n")]).remove(0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    let taken = undo(&gateway, &session, &made);
    let first = undone(&taken);
    assert_eq!(taken.json["after"], Value::Null);
    only(&gateway.work, &[]);
    let changes = gateway.ctl(&["ledger", &session.id, "--diff"]).json["changes"].clone();
    assert!(changes[1]["diff"].as_str().unwrap().contains("+++ /dev/null\n"), "{changes}");
    let second = undone(&undo(&gateway, &session, &first));
    assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"one\n".to_vec(), 0o750));
    // A directory that somebody else uses stays.
    fs::write(gateway.work.join("new/theirs"), "x").unwrap();
    let third = undo(&gateway, &session, &second);
    undone(&third);
    assert!(third.json["notes"][0].as_str().unwrap().contains("stays"), "{third:?}");
    only(&gateway.work, &["new", "new/theirs"]);

    let made = act(&mut session, &[write(&file, "two\n")]).remove(0);
    fs::write(&file, "theirs\n").unwrap();
    refused(&undo(&gateway, &session, &made), "stale_read");
    assert_eq!(fs::read(&file).unwrap(), b"theirs\n");
    session.stop();
}

#[test]
fn what_can_not_be_undone_is_refused_with_the_reason() {
    let gateway = Gateway::start();
    let file = gateway.work.join("a.txt");
    fs::write(&file, "one\n").unwrap();
    let mut session = writer(&gateway);
    let ids = act(&mut session, &[read(&file), edit(&file, "one", "two")]);
    let failed = session.act(&[edit(&file, "absent", "x")])[0]["action_id"].as_str().unwrap().to_owned();
    assert!(refused(&undo(&gateway, &session, &ids[0]), "not_applied").contains("(Read)"));
    assert!(refused(&undo(&gateway, &session, &failed), "not_applied").contains("(Edit)"));
    assert!(refused(&undo(&gateway, &session, "toolu_zz"), "invalid_argument").contains("toolu_zz"));
    assert!(refused(&undo(&gateway, &session, "toolu_"), "invalid_argument").contains("actions begin with"));
    assert_eq!(gateway.ctl(&["undo", &session.id]).code, 2);

    let blobs = gateway.state.join("sessions").join(&session.id).join("blobs");
    let kept: Vec<PathBuf> = fs::read_dir(&blobs).unwrap().map(|entry| entry.unwrap().path()).collect();
    let one = kept.iter().find(|path| fs::read(path).unwrap() == b"one\n").unwrap();
    fs::write(one, "oen\n").unwrap();
    assert!(refused(&undo(&gateway, &session, &ids[1]), "not_applied").contains("damaged"));
    fs::remove_file(one).unwrap();
    assert!(refused(&undo(&gateway, &session, &ids[1]), "not_available").contains("not kept"));
    fs::write(one, "one\n").unwrap();

    let moved = gateway.work.with_extension("moved");
    fs::rename(&gateway.work, &moved).unwrap();
    refused(&undo(&gateway, &session, &ids[1]), "recovery_required");
    fs::create_dir(&gateway.work).unwrap();
    fs::write(&file, "two\n").unwrap();
    refused(&undo(&gateway, &session, &ids[1]), "recovery_required");
    assert_eq!(fs::read(&file).unwrap(), b"two\n");
    fs::remove_dir_all(&gateway.work).unwrap();
    fs::rename(&moved, &gateway.work).unwrap();

    // Walls of any write: a second name, a link in the way.
    fs::hard_link(&file, gateway.work.join("second")).unwrap();
    assert!(refused(&undo(&gateway, &session, &ids[1]), "not_applied").contains("hard links"));
    fs::remove_file(gateway.work.join("second")).unwrap();
    fs::rename(&file, gateway.work.join("b.txt")).unwrap();
    std::os::unix::fs::symlink("b.txt", &file).unwrap();
    refused(&undo(&gateway, &session, &ids[1]), "not_applied");
    assert_eq!(fs::read(gateway.work.join("b.txt")).unwrap(), b"two\n");
    fs::remove_file(&file).unwrap();
    fs::rename(gateway.work.join("b.txt"), &file).unwrap();
    undone(&undo(&gateway, &session, &ids[1]));
    session.stop();
}

#[test]
fn a_session_that_ended_was_lost_or_ran_out_can_be_undone_too() {
    let mut gateway = Gateway::with(&[("CLAUDE_TOOLS_LEASE_SECONDS", "8")]);
    let file = gateway.work.join("a.txt");
    fs::write(&file, "0").unwrap();
    let mut session = writer(&gateway);
    let mut ids = act(&mut session, &[read(&file), edit(&file, "0", "1")]);
    for (old, new) in [("1", "2"), ("2", "3"), ("3", "4")] {
        ids.extend(act(&mut session, &[edit(&file, old, new)]));
    }
    let mut undo_newest = |gateway: &Gateway, session: &Session, left: &str| {
        undone(&undo(gateway, session, &ids.pop().unwrap()));
        assert_eq!(fs::read_to_string(&file).unwrap(), left);
    };
    gateway.restart();
    undo_newest(&gateway, &session, "3");
    gateway.claude_code().kill();
    session.wait_for_status("idle");
    undo_newest(&gateway, &session, "2");
    gateway.wait_for_no_runners();
    until("the lease runs out", Duration::from_secs(60), || {
        (gateway.ctl(&["show", &session.id]).json["status"] == "lease_expired").then_some(())
    });
    undo_newest(&gateway, &session, "1");
    assert_eq!(gateway.ctl(&["stop", &session.id]).code, 0);
    gateway.restart();
    undo_newest(&gateway, &session, "0");
    assert_eq!(gateway.ctl(&["show", &session.id]).json["status"], "stopped");
    assert_eq!(gateway.ctl(&["ledger", &session.id, "--verify"]).code, 0);
    assert!(gateway.runners().is_empty());
}

#[test]
fn the_same_undo_asked_twice_at_once_is_one_undo() {
    let gateway = Gateway::start();
    let file = gateway.work.join("a.txt");
    let mut session = writer(&gateway);
    let ids = act(&mut session, &[write(&file, "one"), edit(&file, "one", "two")]);
    let answers: Vec<Ctl> = thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| undo(&gateway, &session, &ids[1]))).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let told = |ctl: &Ctl| {
        let text = if ctl.code == 0 { &ctl.json["outcome"] } else { &ctl.json["error"]["code"] };
        text.as_str().unwrap().to_owned()
    };
    let outcomes: Vec<String> = answers.iter().map(told).collect();
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "applied").count(), 1, "{outcomes:?}");
    assert!(
        outcomes.iter().all(|o| ["applied", "already_undone", "busy"].contains(&o.as_str())),
        "{outcomes:?}"
    );
    assert_eq!(fs::read(&file).unwrap(), b"one");
    session.stop();
}

#[test]
fn a_sub_sessions_change_is_undone_once_it_has_ended() {
    let (gateway, model, mut session) = delegating(&[]);
    let root = PathBuf::from(session.text("working_directory"));
    let mine = act(&mut session, &[write(&root.join("mine"), "mine")]).remove(0);
    let theirs = root.join("a.txt");
    model.answer(Answer::Calls(vec![
        ("Read".into(), json!({"file_path": theirs})),
        ("Edit".into(), json!({"file_path": theirs, "old_string": "one", "new_string": "two"})),
    ]));
    let task = json!({"task": "Do it.", "model": "sonnet"});
    act(&mut session, &[("deepseek_subagent_start", task)]);
    until("it wrote", Duration::from_secs(90), || (fs::read(&theirs).unwrap() == b"two\n").then_some(()));
    assert!(refused(&undo(&gateway, &session, &mine), "busy").contains("sub-session"));
    model.answer(Answer::Text("Done.".into()));
    until("the sub-session ends", Duration::from_secs(90), || {
        (session.status(1)["deepseek_subsessions"][0]["state"] == "finished").then_some(())
    });
    let sub = session.view["deepseek_subsessions"][0].clone();
    assert_eq!(sub["files_changed"].as_array().unwrap().len(), 1, "{sub}");
    let changes = gateway.ctl(&["ledger", &session.id, "--diff"]).json["changes"].clone();
    let action = changes[1]["action_id"].as_str().unwrap();
    let done = undo(&gateway, &session, action);
    undone(&done);
    assert_eq!(done.json["subsession_id"], sub["id"]);
    assert_eq!(fs::read(&theirs).unwrap(), b"one\n");
    let shown = gateway.ctl(&["show", &session.id]).json;
    assert_eq!(shown["deepseek_subsessions"][0]["files_changed"], json!([]), "{shown}");
    undone(&undo(&gateway, &session, &mine));
    assert_eq!(gateway.ctl(&["ledger", &session.id, "--verify"]).code, 0);
    // Without its worktree there is nothing to write to.
    session.finish("done");
    session.stop();
    fs::rename(&root, root.with_extension("gone")).unwrap();
    let gone = changes[0]["action_id"].as_str().unwrap();
    let again = gateway.ctl(&["undo", &session.id, done.json["action_id"].as_str().unwrap()]);
    refused(&again, "recovery_required");
    assert_eq!(undo(&gateway, &session, gone).json["outcome"], "already_undone");
    fs::rename(root.with_extension("gone"), &root).unwrap();
}
