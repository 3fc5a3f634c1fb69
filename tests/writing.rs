//! (X5, X6, X7) Writing through the real Claude Code: exact to the byte, only what was seen, told from the receipt.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use tests::{
    Gateway, Session,
    calls::{edit, read, write},
    key,
    tree::snapshot,
};

fn content(result: &Value) -> &str {
    result["content"].as_str().unwrap_or_default()
}

#[track_caller]
fn done(result: &Value) {
    assert_eq!(result["is_error"], false, "{result}");
}

/// The code that the result's text begins with.
#[track_caller]
fn refused(result: &Value, code: &str) {
    assert_eq!(result["is_error"], true, "{result}");
    assert!(content(result).starts_with(code), "{result}");
}

/// A name, the bytes before, what is replaced by what, the bytes after.
type Case = (&'static str, &'static [u8], &'static str, &'static str, &'static [u8]);

#[test]
fn a_change_touches_the_bytes_it_means_and_nothing_else() {
    let gateway = Gateway::start();
    let file = |name: &str| gateway.work.join(name);
    let cases: [Case; 5] = [
        ("crlf", b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        ("mixed", b"a\r\nb\nc\r\n", "b", "B", b"a\r\nB\nc\r\n"),
        ("bom", b"\xef\xbb\xbfa\nb", "b", "c", b"\xef\xbb\xbfa\nc"),
        ("control", b"\x00a\x1b[0m\x0cb", "a", "A", b"\x00A\x1b[0m\x0cb"),
        ("unicode", "e\u{301} \u{e9}\n".as_bytes(), "\u{e9}", "E", "e\u{301} E\n".as_bytes()),
    ];
    for (name, before, ..) in cases {
        fs::write(file(name), before).unwrap();
    }
    fs::write(file("untouched"), "as it was").unwrap();
    let notebook = "{\n \"cells\": [\n  {\"cell_type\": \"raw\", \"id\": \"a\", \"metadata\": {}, \"source\": \"x\"},\n  {\"cell_type\":\"raw\",\"id\":\"b\",\"metadata\":{},\"source\":\"y\"}\n ],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}";
    fs::write(file("n.ipynb"), notebook).unwrap();

    let mut session = Session::start_as(&gateway.client, &gateway.work, "direct_write");
    let names = cases.map(|case| case.0);
    let mut calls: Vec<_> = names.iter().map(|name| read(&file(name))).collect();
    calls.extend(cases.iter().map(|(name, _, old, new, _)| edit(&file(name), old, new)));
    for result in session.act(&calls) {
        done(&result);
    }
    for (name, _, _, _, after) in cases {
        assert_eq!(fs::read(file(name)).unwrap(), after, "{name}");
    }
    let cell =
        json!({"notebook_path": file("n.ipynb"), "cell_id": "b", "new_source": "z", "edit_mode": "replace"});
    let new = file("deep/er/new.txt");
    let results = session.act(&[
        read(&file("n.ipynb")),
        ("NotebookEdit", cell),
        write(&new, "one\r\ntwo"),
        edit(&new, "two", "2"),
    ]);
    results.iter().for_each(done);
    assert_eq!(fs::read_to_string(file("n.ipynb")).unwrap(), notebook.replace("\"y\"", "\"z\""));
    assert_eq!(fs::read(&new).unwrap(), b"one\r\n2");
    assert!(
        content(&results[3]).contains("-two") && content(&results[3]).contains("SHA-256"),
        "{}",
        results[3]
    );
    assert_eq!(fs::read_to_string(file("untouched")).unwrap(), "as it was");
    assert_eq!(snapshot(&gateway.work).len(), names.len() + 5, "nothing else is there");
    session.finish("done");
}

#[test]
fn what_the_session_did_not_see_is_not_overwritten() {
    let gateway = Gateway::start();
    let file = gateway.work.join("a.txt");
    fs::write(&file, "one\n").unwrap();
    let mut session = Session::start_as(&gateway.client, &gateway.work, "direct_write");
    let results = session.act(&[edit(&file, "one", "two"), write(&file, "two")]);
    results.iter().for_each(|result| refused(result, "stale_read"));
    session.act(&[read(&file)]);
    fs::write(&file, "theirs\n").unwrap();
    refused(&session.act(&[edit(&file, "one", "two")])[0], "stale_read");
    assert_eq!(fs::read(&file).unwrap(), b"theirs\n");
    session.act(&[read(&file), edit(&file, "theirs", "ours")]).iter().for_each(done);
    assert_eq!(fs::read(&file).unwrap(), b"ours\n");
    // Another process of the same session still knows what was seen.
    gateway.claude_code().kill();
    session.wait_for_status("idle");
    session.go_on("again");
    done(&session.act(&[edit(&file, "ours", "again")])[0]);
    assert_eq!(fs::read(&file).unwrap(), b"again\n");
    session.stop();
}

#[test]
fn every_change_can_be_shown_and_what_is_kept_is_checked() {
    let mut gateway = Gateway::start();
    let file = gateway.work.join("a.txt");
    fs::write(&file, "one\ntwo\n").unwrap();
    let mut session = Session::start_as(&gateway.client, &gateway.work, "direct_write");
    let new = gateway.work.join("b.txt");
    session.act(&[read(&file), edit(&file, "two", "2"), write(&new, "new\n")]).iter().for_each(done);
    session.stop();
    gateway.wait_for_no_runners();
    // A journal is read without a supervisor too.
    gateway.terminate();
    let diff = gateway.ctl(&["ledger", &session.id, "--diff"]);
    assert_eq!(diff.code, 0, "{diff:?}");
    let changes = diff.json["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2, "{diff:?}");
    assert!(changes[0]["diff"].as_str().unwrap().ends_with("@@ -1,2 +1,2 @@\n one\n-two\n+2\n"), "{diff:?}");
    assert!(changes[1]["diff"].as_str().unwrap().starts_with("--- /dev/null\n"), "{diff:?}");
    let records = gateway.ctl(&["ledger", &session.id[..12]]).json["records"].clone();
    let kinds: Vec<_> = records.as_array().unwrap().iter().map(|r| r["entry"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("created", "stopped"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "prepared").count(), 2, "{kinds:?}");
    assert!(!records.to_string().contains("lease_id"), "a listing drives no session");

    assert_eq!(gateway.ctl(&["ledger", &session.id, "--verify"]).code, 0);
    let blobs = gateway.state.join("sessions").join(&session.id).join("blobs");
    let kept = fs::read_dir(&blobs).unwrap().next().unwrap().unwrap().path();
    fs::write(&kept, "changed").unwrap();
    let verify = gateway.ctl(&["ledger", &session.id, "--verify"]);
    assert_eq!((verify.code, &verify.json["whole"]), (1, &json!(false)), "{verify:?}");
    gateway.start_again();
}

#[test]
fn of_two_sessions_in_one_directory_neither_loses_a_change() {
    let gateway = Gateway::start();
    let file = gateway.work.join("a.txt");
    fs::write(&file, "one\n").unwrap();
    let mut first = Session::start_as(&gateway.client, &gateway.work, "direct_write");
    let mut second = Session::start_as(&gateway.client, &gateway.work, "direct_write");
    for session in [&mut first, &mut second] {
        done(&session.act(&[read(&file)])[0]);
    }
    done(&first.act(&[edit(&file, "one", "first")])[0]);
    refused(&second.act(&[edit(&file, "one", "second")])[0], "stale_read");
    assert_eq!(fs::read(&file).unwrap(), b"first\n");
    first.stop();
    second.stop();
}

#[test]
fn a_session_that_only_reads_has_no_tool_that_writes() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let turn = session.turn();
    let (name, input) = write(&gateway.work.join("a"), "x");
    let reply = json!({"turn_id": turn["turn_id"], "reply_id": key(), "tool_calls": [{"name": name, "input": input}], "wait_seconds": 1});
    let refusal = gateway.client.refused("native_session_reply_and_wait", &session.arguments(&reply));
    assert_eq!(refusal.code, "tool_not_allowed");
    assert_eq!(fs::read_dir(&gateway.work).unwrap().count(), 0);
    session.stop();
}

#[test]
fn no_session_writes_in_a_home_in_what_is_protected_or_everywhere() {
    let gateway = Gateway::start();
    let home = PathBuf::from(&gateway.environment["HOME"]);
    let git = gateway.work.join("repository/.git/hooks");
    let (keys, below) = (home.join(".ssh"), home.join(".aws/cache"));
    let by_link = gateway.work.join("link");
    for folder in [&git, &keys, &below] {
        fs::create_dir_all(folder).unwrap();
    }
    std::os::unix::fs::symlink(&keys, &by_link).unwrap();
    let own = [gateway.state.clone(), gateway.state.join("sessions")];
    for directory in own.into_iter().chain([PathBuf::from("/"), home, git, keys, below, by_link]) {
        let start = json!({
            "prompt": "p", "idempotency_key": key(), "working_directory": directory,
            "capability_profile": "direct_write", "wait_seconds": 0,
        });
        let refusal = gateway.client.refused("native_session_start", &start);
        assert_eq!(refusal.code, "invalid_argument", "{directory:?}");
    }
}

#[test]
fn a_root_that_was_replaced_is_not_written_any_more() {
    let gateway = Gateway::start();
    let root = gateway.work.join("project");
    fs::create_dir(&root).unwrap();
    let mut session = Session::start_as(&gateway.client, &root, "direct_write");
    fs::rename(&root, gateway.work.join("moved")).unwrap();
    fs::create_dir(&root).unwrap();
    refused(&session.act(&[write(&root.join("a"), "x")])[0], "not_applied");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    let view = session.recover(&key(), 0).unwrap();
    assert_eq!(view["status"], "recovery_required", "{view}");
    session.stop();
}
