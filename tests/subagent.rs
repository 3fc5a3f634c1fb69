//! [D1] A delegated task: one route, one writer, recorded and ended like everything else. Claude Code plays both parts.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tests::{Answer, Rig, delegation::KEY, key, until};

fn write(path: &Path, content: &str) -> (String, Value) {
    ("Write".to_owned(), json!({"file_path": path, "content": content}))
}

#[test]
fn a_task_is_done_with_the_gateways_tools_and_told_with_what_it_changed() {
    let mut rig = Rig::new(&[]);
    let file = rig.root.join("b.txt");
    let told = rig.delegate("fable");
    let id = told["id"].clone();
    assert_eq!((&told["state"], &told["model"]), (&json!("running"), &json!("fable")), "{told}");
    assert_eq!(rig.session.view["active_deepseek_subsession_id"], id);
    assert_eq!(
        rig.session.view["deepseek_route"],
        json!({"sonnet": "flash", "opus": "flash", "fable": "pro"})
    );

    // One writer: the main session reads, and nothing else.
    for call in [
        json!([{"name": "Write", "input": {"file_path": rig.root.join("c"), "content": ""}}]),
        json!([{"name": "Edit", "input": {"file_path": rig.root.join("a.txt"), "old_string": "one", "new_string": "1"}}]),
        json!([{"name": "RunCommand", "input": {"argv": ["true"]}}]),
        json!([{"name": "deepseek_subagent_start", "input": {"task": "x", "model": "opus"}}]),
    ] {
        let error = rig.refused(&call);
        assert_eq!(error.code, "busy", "{}", error.body);
    }
    let read = rig.session.act(&[("Read", json!({"file_path": rig.root.join("a.txt")}))]);
    assert_eq!(read[0]["is_error"], false);

    rig.model.answer(Answer::Calls(vec![write(&file, "made\n")]));
    rig.model.answer(Answer::Calls(vec![
        ("Edit".into(), json!({"file_path": file, "old_string": "made", "new_string": "made twice"})),
        ("RunCommand".into(), json!({"argv": ["cat", file]})),
    ]));
    rig.model.answer(Answer::Text("All done.".into()));
    let end = rig.end_of(&id);
    assert_eq!(
        (&end["state"], &end["text"], &end["turns"]),
        (&json!("finished"), &json!("All done."), &json!(3)),
        "{end}"
    );
    assert_eq!(end["files_changed"][0]["path"], file.to_str().unwrap());
    assert_eq!(fs::read_to_string(&file).unwrap(), "made twice\n");
    let view = &rig.session.view["deepseek_subsessions"][0];
    assert_eq!((&view["id"], &view["state"], &view["model"]), (&id, &json!("finished"), &json!("fable")));
    assert_eq!(view["files_changed"][0]["sha256_after"], end["files_changed"][0]["sha256_after"]);
    assert_eq!(rig.session.view["active_deepseek_subsession_id"], json!(null));

    // The barrier is gone, and what the sub-session wrote has to be read first.
    let stale = rig.session.act(&[("Write", json!({"file_path": file, "content": "mine"}))]);
    assert_eq!(stale[0]["is_error"], true, "{stale:?}");
    let results = rig.session.act(&[
        ("Read", json!({"file_path": file})),
        ("Write", json!({"file_path": file, "content": "mine"})),
    ]);
    assert_eq!(results[1]["is_error"], false, "{results:?}");

    for asked in rig.model.asked() {
        assert_eq!(asked.body["model"], "the-pro");
        assert!(asked.head.contains(KEY) && asked.body["metadata"].is_null(), "{}", asked.head);
        assert!(asked.path.ends_with("/v1/messages"), "{}", asked.path);
        let names: Vec<_> =
            asked.body["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert!(!names.iter().any(|name| name.contains("subagent")), "{names:?}");
    }
    let results = rig.model.asked()[2].body["messages"].to_string();
    assert!(results.contains("exit code: 0") && results.contains("made twice"), "{results}");
    rig.session.stop();
    rig.gateway.wait_for_no_runners();
}

#[test]
fn without_a_private_key_nothing_is_asked() {
    for mode in [None, Some(0o644)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        if let Some(mode) = mode {
            fs::write(&path, KEY).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut rig = Rig::with(&[], &[("CLAUDE_TOOLS_DEEPSEEK_KEY_FILE", path.to_str().unwrap())]);
        let told = rig.delegate("opus");
        assert_eq!(told["state"], "failed", "{told}");
        assert!(told["reason"].as_str().unwrap().contains("CLAUDE_TOOLS_DEEPSEEK_KEY_FILE"), "{told}");
        assert!(rig.model.asked().is_empty() && rig.session.view["active_deepseek_subsession_id"].is_null());
        rig.session.stop();
    }
}

#[test]
fn its_time_ends_it() {
    let mut rig = Rig::with(&[Answer::Silence], &[("CLAUDE_TOOLS_DEEPSEEK_SECONDS", "3")]);
    let told = rig.delegate("sonnet");
    let end = rig.end_of(&told["id"]);
    assert_eq!(end["state"], "failed");
    assert!(end["reason"].as_str().unwrap().contains("time of 3 s"), "{end}");
    rig.session.stop();
    rig.gateway.wait_for_no_runners();
}

#[test]
fn its_turns_and_a_stop_end_it() {
    let mut rig = Rig::with(&[], &[("CLAUDE_TOOLS_DEEPSEEK_TURNS", "2")]);
    for _ in 0..2 {
        rig.model.answer(Answer::Calls(vec![("FindFiles".into(), json!({}))]));
    }
    let told = rig.delegate("sonnet");
    let end = rig.end_of(&told["id"]);
    assert!(end["reason"].as_str().unwrap().contains("limit of 2"), "{end}");
    rig.model.answer(Answer::Silence);
    let id = rig.delegate("sonnet")["id"].clone();
    let end = rig.tool("deepseek_subagent_stop", json!({"id": id}));
    assert_eq!(end["state"], "stopped", "{end}");
    let again = rig.tool("deepseek_subagent_stop", json!({"id": id}));
    assert_eq!(again["state"], "stopped");
    rig.session.stop();
    rig.gateway.wait_for_no_runners();
}

#[test]
fn a_start_stands_alone_in_its_reply() {
    let mut rig = Rig::new(&[]);
    let error = rig.refused(&json!([
        {"name": "FindFiles", "input": {}},
        {"name": "deepseek_subagent_start", "input": {"task": "x", "model": "opus"}},
    ]));
    assert_eq!(error.code, "invalid_argument", "{}", error.body);
    assert!(rig.model.asked().is_empty());
    let results = rig.session.act(&[("deepseek_subagent_get", json!({"id": "sub_0"}))]);
    assert_eq!(results[0]["is_error"], true);
    rig.session.stop();
}

#[test]
fn it_survives_the_supervisor_and_ends_with_the_session() {
    let mut rig = Rig::new(&[]);
    let id = rig.delegate("sonnet")["id"].clone();
    let before = rig.gateway.runners();
    rig.gateway.restart();
    assert_eq!(rig.gateway.runners(), before, "a process was replaced");
    rig.session.recover(&key(), 20).unwrap();
    assert_eq!(rig.session.view["active_deepseek_subsession_id"], id);
    let error = rig.refused(&json!([{"name": "RunCommand", "input": {"argv": ["true"]}}]));
    assert_eq!(error.code, "busy", "the barrier is durable: {}", error.body);
    rig.model.answer(Answer::Calls(vec![write(&rig.root.join("b.txt"), "x")]));
    until("the write is recorded", Duration::from_secs(60), || {
        rig.session.status(1)["deepseek_subsessions"][0]["files_changed"][0].is_object().then_some(())
    });
    let view = rig.session.stop().clone();
    assert_eq!(view["status"], "stopped", "{view}");
    assert_eq!(view["deepseek_subsessions"][0]["state"], "stopped", "{view}");
    assert_eq!(view["active_deepseek_subsession_id"], json!(null));
    assert!(
        rig.gateway.runners().is_empty(),
        "stop returned before these were gone: {:?}",
        rig.gateway.runners()
    );
    let shown = rig.gateway.ctl(&["show", &rig.session.id]);
    assert_eq!(shown.json["deepseek_subsessions"][0]["id"], id);
}

#[test]
fn the_end_of_the_lease_ends_it_first() {
    let mut rig = Rig::with(&[], &[("CLAUDE_TOOLS_LEASE_SECONDS", "6")]);
    let id = rig.delegate("sonnet")["id"].clone();
    rig.gateway.wait_for_no_runners();
    let view = rig.session.recover(&key(), 10).unwrap().clone();
    assert_eq!(view["deepseek_subsessions"][0]["id"], id);
    assert_eq!(view["deepseek_subsessions"][0]["state"], "stopped", "{view}");
    assert_eq!(view["active_deepseek_subsession_id"], json!(null));
}

#[test]
fn a_dead_worker_loses_it_and_the_session_goes_on() {
    for with_supervisor in [false, true] {
        let mut rig = Rig::new(&[]);
        let id = rig.delegate("sonnet")["id"].clone();
        if with_supervisor {
            rig.gateway.kill();
        }
        let runners = rig.gateway.runners();
        runners.iter().filter(|p| p.is_worker()).for_each(tests::processes::Process::kill);
        if with_supervisor {
            rig.gateway.start_again();
            rig.session.recover(&key(), 0).unwrap();
        }
        until("the loss is noticed", Duration::from_secs(30), || {
            (rig.session.status(2)["runtime_attached"] == false).then_some(())
        });
        let view = rig.session.view.clone();
        assert_eq!(view["deepseek_subsessions"][0]["state"], "lost", "{view}");
        assert_eq!(view["active_deepseek_subsession_id"], json!(null));
        rig.session.go_on("again");
        let told = rig.tool("deepseek_subagent_get", json!({"id": id}));
        assert_eq!(told["state"], "lost", "{told}");
        let results = rig.session.act(&[("RunCommand", json!({"argv": ["true"]}))]);
        assert_eq!(results[0]["is_error"], false, "the barrier is lifted: {results:?}");
        rig.session.stop();
        rig.gateway.wait_for_no_runners();
    }
}

#[test]
fn the_key_is_in_no_process_no_view_no_log_and_no_tool() {
    let mut rig = Rig::new(&[]);
    let key_file = PathBuf::from(&rig.gateway.environment["CLAUDE_TOOLS_DEEPSEEK_KEY_FILE"]);
    let id = rig.delegate("sonnet")["id"].clone();
    for process in rig.gateway.runners() {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        assert!(!process.command.contains(KEY) && !String::from_utf8_lossy(&environment).contains(KEY));
    }
    let read = rig.session.act(&[("Read", json!({"file_path": key_file}))]);
    assert_eq!(read[0]["is_error"], true, "{read:?}");
    rig.model.answer(Answer::Calls(vec![
        ("Read".into(), json!({"file_path": key_file})),
        ("RunCommand".into(), json!({"argv": ["cat", key_file]})),
        ("Write".into(), json!({"file_path": rig.gateway.work.join("out"), "content": "x"})),
        ("deepseek_subagent_start".into(), json!({"task": "x", "model": "opus"})),
    ]));
    rig.model.answer(Answer::Text("tried".into()));
    assert_eq!(rig.end_of(&id)["state"], "finished");
    let asked = rig.model.asked();
    assert!(
        !asked.last().unwrap().body.to_string().contains(KEY),
        "a tool of the sub-session showed the key"
    );
    assert!(!rig.gateway.work.join("out").exists());
    assert!(!rig.session.view.to_string().contains(KEY));
    assert!(!rig.gateway.ctl(&["show", &rig.session.id]).json.to_string().contains(KEY));
    rig.session.stop();
    assert!(!rig.gateway.log().contains(KEY));
}

#[test]
fn a_worker_that_ends_alone_leaves_word_of_how_its_sub_session_ended() {
    for at_work in [false, true] {
        let mut rig = Rig::with(&[], &[("CLAUDE_TOOLS_LEASE_SECONDS", "8")]);
        let id = rig.delegate("sonnet")["id"].clone();
        rig.gateway.kill();
        if at_work {
            // Nobody records the call, so it never begins.
            rig.model.answer(Answer::Calls(vec![write(&rig.root.join("b.txt"), "x")]));
        }
        rig.gateway.wait_for_no_runners();
        rig.gateway.start_again();
        let view = rig.session.recover(&key(), 10).unwrap().clone();
        let sub = &view["deepseek_subsessions"][0];
        assert_eq!((&sub["id"], &sub["state"]), (&id, &json!("stopped")), "{view}");
        assert_eq!((&view["status"], &sub["files_changed"]), (&json!("idle"), &json!([])), "{view}");
        assert!(!rig.root.join("b.txt").exists());
        rig.session.go_on("again");
        let told = rig.tool("deepseek_subagent_get", json!({"id": id}));
        assert_eq!((&told["state"], &told["reason"]), (&json!("stopped"), &sub["reason"]), "{told}");
        rig.session.stop();
    }
}
