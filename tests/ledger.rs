//! (R3, X7) What a session changed can be shown, exactly and whoever changed it, and damage to what is kept is named.

use std::{
    fs,
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use protocol::digest::Digest;
use serde_json::{Value, json};
use tests::{
    Answer, Gateway, Model, Session,
    calls::{edit, write},
    key, until,
};

#[track_caller]
fn act(session: &mut Session, calls: &[(&str, Value)]) {
    for result in session.act(calls) {
        assert_eq!(result["is_error"], false, "{result}");
    }
}

fn ledger(gateway: &Gateway, session: &str, how: &str) -> tests::Ctl {
    gateway.ctl(&["ledger", session, how])
}

fn folder(gateway: &Gateway, session: &str) -> PathBuf {
    gateway.state.join("sessions").join(session)
}

/// `gatewayctl` as a person sees it.
fn page(gateway: &Gateway, arguments: &[&str]) -> String {
    let output = gateway.command("gatewayctl").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Flips one bit in the middle of a file, and gives its content back.
fn flip(path: &Path) -> Vec<u8> {
    let before = fs::read(path).unwrap();
    let at = before.len() / 2;
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[before[at] ^ 1], at as u64).unwrap();
    before
}

#[test]
fn a_diff_shows_line_ends_new_files_and_says_what_it_can_not_show() {
    let gateway = Gateway::start();
    let file = |name: &str| gateway.work.join(name);
    fs::write(file("crlf"), "a\r\nb\r\n").unwrap();
    fs::write(file("bare"), "a\nb").unwrap();
    fs::write(file("ends"), "a\r\nb\r\n").unwrap();
    let mut session = Session::start_as(&gateway.client, &gateway.work, "direct_write");
    let reads = ["crlf", "bare", "ends"].map(|name| ("Read", json!({"file_path": file(name)})));
    act(&mut session, &reads);
    act(
        &mut session,
        &[
            edit(&file("crlf"), "b", "c"),
            edit(&file("bare"), "b", "c\n"),
            write(&file("ends"), "a\nb\r\n"),
            write(&file("new/file"), "x\n"),
            write(&file("none"), "zero \u{0}"),
            write(&file("gone"), "one"),
        ],
    );
    let kept = folder(&gateway, &session.id).join("blobs");
    fs::remove_file(kept.join(Digest::of(b"one").to_string())).unwrap();
    let diff = ledger(&gateway, &session.id, "--diff");
    assert_eq!(diff.code, 0, "{diff:?}");
    let changes = diff.json["changes"].as_array().unwrap();
    let text = |at: usize| changes[at]["diff"].as_str().unwrap_or_default();
    assert!(text(0).ends_with("@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"), "{diff:?}");
    assert!(text(1).ends_with("-b\n\\ No newline at end of file\n+c\n"), "{diff:?}");
    assert!(text(2).ends_with("-a\r\n+a\n b\r\n"), "{diff:?}");
    assert!(text(3).starts_with("--- /dev/null\n+++ ") && text(3).ends_with("+x\n"), "{diff:?}");
    assert_eq!((&changes[4]["diff"], &changes[5]["diff"]), (&Value::Null, &Value::Null));
    assert_eq!(changes[4]["note"], "no text: 0 bytes before, 6 after");
    assert!(changes[5]["note"].as_str().unwrap().starts_with("the version after is not kept"), "{diff:?}");
    // A terminal shows a carriage return where it makes the difference, and only there.
    let shown = page(&gateway, &["ledger", &session.id, "--diff"]);
    assert!(shown.contains("\n-b\n+c\n") && shown.contains("\n-a␍\n+a\n b␍\n"), "{shown}");
    session.stop();
}

#[test]
fn whatever_is_damaged_is_named() {
    let mut gateway = Gateway::start();
    let file = gateway.work.join("a.txt");
    let mut session = Session::start_as(&gateway.client, &gateway.work, "direct_write");
    act(&mut session, &[write(&file, "one\n"), edit(&file, "one", "two")]);
    let actions: Vec<String> = ledger(&gateway, &session.id, "--diff").json["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["action_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ledger(&gateway, &session.id, "--verify").code, 0, "of a session at work");
    session.stop();
    gateway.wait_for_no_runners();
    gateway.terminate();
    let whole = ledger(&gateway, &session.id, "--verify");
    assert_eq!((whole.code, &whole.json["whole"], &whole.json["damage"]), (0, &json!(true), &json!([])));

    let damage = |name: &str| {
        let verify = ledger(&gateway, &session.id, "--verify");
        assert_eq!((verify.code, &verify.json["whole"]), (1, &json!(false)), "{name}: {verify:?}");
        verify.json["damage"].to_string()
    };
    let (one, two) = (Digest::of(b"one\n").to_string(), Digest::of(b"two\n").to_string());
    let kept = folder(&gateway, &session.id).join("blobs");
    let content = flip(&kept.join(&two));
    let said = damage("a flipped version");
    assert!(said.contains(&two) && said.contains("damaged") && said.contains(&actions[1]), "{said}");
    let diff = ledger(&gateway, &session.id, "--diff").json;
    assert!(diff["changes"][1]["note"].as_str().unwrap().contains("damaged"), "{diff}");
    fs::write(kept.join(&two), content).unwrap();
    fs::rename(kept.join(&one), kept.join("elsewhere")).unwrap();
    let said = damage("a version taken away");
    assert!(said.contains(&one) && said.contains("missing") && said.contains(&actions[0]), "{said}");
    fs::rename(kept.join("elsewhere"), kept.join(&one)).unwrap();

    let journal = folder(&gateway, &session.id).join("journal");
    let records = whole.json["records"].as_u64().unwrap();
    let bytes = flip(&journal);
    let verify = ledger(&gateway, &session.id, "--verify");
    let said = verify.json["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert_eq!(verify.code, 1, "{verify:?}");
    assert!(said.contains(&session.id) && said.contains("at record") && said.contains("damaged"), "{said}");
    fs::write(&journal, &bytes[..bytes.len() - 3]).unwrap();
    let said = damage("a cut tail");
    assert!(said.contains(&format!("in the middle of record {records}")), "{said}");
    fs::write(&journal, &bytes).unwrap();
    assert_eq!(ledger(&gateway, &session.id, "--verify").code, 0);
    gateway.start_again();
}

/// A session that may delegate, in a worktree of a repository with one file.
pub(crate) fn delegating(answers: &[Answer]) -> (Gateway, Model, Session) {
    let model = Model::with(answers);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, "sk-x\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let gateway = Gateway::with(&[
        ("CLAUDE_TOOLS_DEEPSEEK_URL", model.url().as_str()),
        ("CLAUDE_TOOLS_DEEPSEEK_KEY_FILE", file.to_str().unwrap()),
    ]);
    // It is read when a task begins, and goes with the gateway's folder.
    fs::rename(folder.keep(), gateway.work.join("keys")).unwrap();
    let mut gateway = gateway;
    let moved = gateway.work.join("keys/key").to_str().unwrap().to_owned();
    gateway.environment.insert("CLAUDE_TOOLS_DEEPSEEK_KEY_FILE".into(), moved);
    gateway.restart();
    let source = gateway.work.join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("a.txt"), "one\n").unwrap();
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(arguments);
        assert!(git.current_dir(&source).env("HOME", &source).status().unwrap().success());
    }
    let start = json!({
        "prompt": "p", "idempotency_key": key(), "working_directory": source,
        "capability_profile": "worktree_write", "subagent_policy": "deepseek_explicit", "wait_seconds": 50,
    });
    let mut session =
        Session::of(&gateway.client, gateway.client.call("native_session_start", &start).unwrap());
    session.turn();
    (gateway, model, session)
}

#[test]
fn what_a_sub_session_changed_is_shown_as_its_own_and_checked() {
    let (gateway, model, mut session) = delegating(&[]);
    let root = PathBuf::from(session.text("working_directory"));
    act(&mut session, &[write(&root.join("mine"), "mine\n")]);
    let (name, input) = write(&root.join("theirs"), "theirs\n");
    model.answer(Answer::Calls(vec![(name.to_owned(), input)]));
    model.answer(Answer::Text("Done.".into()));
    let task = json!({"task": "Do it.", "model": "sonnet"});
    act(&mut session, &[("deepseek_subagent_start", task)]);
    until("the sub-session ends", Duration::from_secs(90), || {
        (session.status(1)["deepseek_subsessions"][0]["state"] == "finished").then_some(())
    });
    let sub = session.view["deepseek_subsessions"][0]["id"].as_str().unwrap().to_owned();
    let diff = ledger(&gateway, &session.id, "--diff").json;
    let changes = diff["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2, "{diff}");
    assert_eq!((&changes[0]["subsession_id"], &changes[1]["subsession_id"]), (&Value::Null, &json!(sub)));
    assert!(changes[1]["diff"].as_str().unwrap().ends_with("+theirs\n"), "{diff}");
    assert!(
        page(&gateway, &["ledger", &session.id, "--diff"]).contains(&format!("by the sub-session {sub}"))
    );

    assert_eq!(ledger(&gateway, &session.id, "--verify").code, 0);
    let kept = folder(&gateway, &session.id).join("subsessions").join(&sub).join("blobs");
    flip(&kept.join(Digest::of(b"theirs\n").to_string()));
    let verify = ledger(&gateway, &session.id, "--verify");
    assert_eq!(verify.code, 1, "{verify:?}");
    assert!(verify.json["damage"][0].as_str().unwrap().contains(&sub), "{verify:?}");
    session.finish("done");
    session.stop();
}
