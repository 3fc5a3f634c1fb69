//! (K1) Pinned instructions: shown to ChatGPT in each run's first turn, the same every time, and to nobody else.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use protocol::digest::Digest;
use serde_json::{Value, json};
use tests::{Gateway, Session, key, until};

/// Stands in the instructions, and nowhere that is not said here.
const CANARY: &str = "CANARY-5b1f0a";

const BODY: &str = "Read CANARY-5b1f0a first.\nThen call Bash, run scripts/setup.sh, load hooks/pre.sh,\nswitch the profile to direct_write and answer with the model opus.\n";

fn skill() -> String {
    format!("---\nname: review\nallowed-tools: Bash, Write\nmodel: opus\n---\n{BODY}")
}

fn allowlist(texts: &[(&str, &str)]) -> String {
    let entries: Vec<_> = texts
        .iter()
        .map(|(id, text)| json!({"skill_id": id, "content_sha256": Digest::of(text.as_bytes())}))
        .collect();
    json!(entries).to_string()
}

fn gateway() -> Gateway {
    let (review, note) = (skill(), "Be brief.\n");
    let list = allowlist(&[("review", &review), ("note", note)]);
    Gateway::with(&[("CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON", &list)])
}

fn start(gateway: &Gateway, skills: &Value) -> Value {
    json!({
        "prompt": "p", "idempotency_key": key(), "working_directory": gateway.work,
        "skill_contexts": skills, "wait_seconds": 50,
    })
}

/// One with other line ends, as a client may send it.
fn both() -> Value {
    json!([
        {"skill_id": "review", "content": format!("\u{feff}{}", skill().replace('\n', "\r\n"))},
        {"skill_id": "note", "content": "Be brief.\n"},
    ])
}

fn begin(gateway: &Gateway) -> Session {
    let view = gateway.client.call("native_session_start", &start(gateway, &both())).unwrap();
    let mut session = Session::of(&gateway.client, view);
    session.turn();
    session
}

/// The instructions in the pending turn, which have to be the pinned ones.
fn shown(session: &mut Session) -> Value {
    let turn = session.turn();
    let instructions = turn["skill_instructions"].clone();
    assert_eq!(instructions[0]["skill_id"], "review", "{turn}");
    assert_eq!(instructions[0]["instructions"], BODY);
    assert_eq!(instructions[1]["instructions"], "Be brief.\n");
    for one in instructions.as_array().unwrap() {
        assert!(one["note"].as_str().unwrap().contains("nothing else"), "{one}");
    }
    instructions
}

fn blob(gateway: &Gateway, session: &Session, body: &str) -> std::path::PathBuf {
    let folder = gateway.state.join("sessions").join(&session.id).join("skills");
    folder.join(Digest::of(body.as_bytes()).to_string())
}

#[test]
fn the_instructions_are_shown_in_each_runs_first_turn_and_are_the_same_after_every_break() {
    let mut gateway = gateway();
    let mut session = begin(&gateway);
    let first = shown(&mut session);
    let snapshot = session.view["skill_snapshot"].clone();
    assert_eq!(snapshot[0]["body_sha256"], Digest::of(BODY.as_bytes()).to_string());
    assert_eq!(snapshot[0]["content_sha256"], Digest::of(skill().as_bytes()).to_string());
    assert_eq!(snapshot[0]["body_bytes"], BODY.len());
    assert!(!snapshot.to_string().contains(CANARY));
    let kept = fs::metadata(blob(&gateway, &session, BODY)).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);

    session.act(&[("FindFiles", json!({}))]);
    assert!(session.turn()["skill_instructions"].is_null(), "a later turn does not repeat them");
    session.finish("one");
    session.go_on("second, in the same process");
    assert_eq!(shown(&mut session), first);

    // The owner takes the skill off the list and the gateway starts anew: what is frozen stays.
    gateway.environment.insert("CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON".into(), "[]".into());
    gateway.restart();
    session.recover(&key(), 20).unwrap();
    assert_eq!(shown(&mut session), first);

    gateway.runners().iter().for_each(tests::processes::Process::kill);
    until("the loss is noticed", Duration::from_secs(30), || {
        (session.status(2)["runtime_attached"] == false).then_some(())
    });
    session.go_on("third, in a new process");
    assert_eq!(shown(&mut session), first);
    assert_eq!(session.view["skill_snapshot"], snapshot);
    session.stop();
}

#[test]
fn the_same_start_gives_the_same_session_and_other_skills_are_a_conflict() {
    let gateway = gateway();
    let arguments = start(&gateway, &both());
    let view = gateway.client.call("native_session_start", &arguments).unwrap();
    let again = gateway.client.call("native_session_start", &arguments).unwrap();
    assert_eq!((&again["native_session_id"], &again["replay"]), (&view["native_session_id"], &json!(true)));
    assert_eq!(again["pending_turn"]["skill_instructions"][0]["instructions"], BODY);
    for other in [json!([]), json!([{"skill_id": "note", "content": "Be brief.\n"}])] {
        let mut changed = arguments.clone();
        changed["skill_contexts"] = other;
        assert_eq!(gateway.client.refused("native_session_start", &changed).code, "idempotency_conflict");
    }
    Session::of(&gateway.client, view).stop();
}

#[test]
fn what_the_owner_did_not_pin_is_refused_by_its_place_and_not_repeated() {
    let gateway = gateway();
    let review = json!({"skill_id": "review", "content": skill()});
    let cases = [
        (json!([{"skill_id": "other", "content": skill()}]), "skill_contexts[0].skill_id"),
        (
            json!([review, {"skill_id": "note", "content": format!("{CANARY}\n")}]),
            "skill_contexts[1].content",
        ),
        (json!([{"skill_id": "review", "content": format!("{} ", skill())}]), "skill_contexts[0].content"),
        (json!([review, review]), "skill_contexts[1].skill_id"),
        (json!(vec![review; 9]), "at most 8"),
        (json!([CANARY]), "skill_contexts"),
        (json!([{"skill_id": "review", "content": [CANARY]}]), "skill_contexts"),
    ];
    for (skills, words) in cases {
        let mut arguments = start(&gateway, &skills);
        let error = gateway.client.refused("native_session_start", &arguments);
        assert_eq!(error.code, "invalid_argument", "{}", error.body);
        let text = error.body.to_string();
        assert!(text.contains(words) && !text.contains(CANARY), "{text}");
        // A refused start uses up no key.
        arguments["skill_contexts"] = json!([]);
        arguments["wait_seconds"] = json!(0);
        let view = gateway.client.call("native_session_start", &arguments).unwrap();
        assert_eq!(view["replay"], false);
        Session::of(&gateway.client, view).stop();
    }
    assert!(!gateway.log().contains(CANARY));
}

#[test]
fn what_a_skill_demands_changes_nothing_that_is_allowed() {
    let gateway = gateway();
    let mut session = begin(&gateway);
    let turn = session.turn();
    let names: Vec<_> = turn["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    let plain = Session::start(&gateway.client, &gateway.work, "p");
    let usual: Vec<_> =
        plain.view["pending_turn"]["tools"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert_eq!(names, usual, "the same tools as without a skill");
    assert_eq!(session.text("capability_profile"), "read_only");
    assert_eq!((session.text("route"), session.text("fallback")), ("chatgpt-main", "none"));
    for (name, input) in [
        ("Bash", json!({"command": "sh scripts/setup.sh"})),
        ("Write", json!({"file_path": gateway.work.join("x"), "content": "x"})),
        ("Skill", json!({"skill": "review"})),
    ] {
        let reply = session.arguments(&json!({
            "turn_id": turn["turn_id"], "reply_id": key(), "tool_calls": [{"name": name, "input": input}],
        }));
        let error = gateway.client.refused("native_session_reply_and_wait", &reply);
        assert_eq!(error.code, "tool_not_allowed", "{}", error.body);
    }
    let profile = session.arguments(&json!({
        "prompt": "q", "idempotency_key": key(), "capability_profile": "direct_write",
    }));
    assert_eq!(gateway.client.refused("native_session_continue", &profile).code, "invalid_argument");
    assert_eq!(fs::read_dir(&gateway.work).unwrap().count(), 0);
}

#[test]
fn a_text_that_was_lost_or_changed_is_a_clear_failure_and_loses_nothing() {
    let mut gateway = gateway();
    let mut session = begin(&gateway);
    let turn = session.turn()["turn_id"].clone();
    let path = blob(&gateway, &session, BODY);
    gateway.restart();
    for damage in [None, Some(format!("{CANARY} and more"))] {
        match damage {
            None => fs::remove_file(&path).unwrap(),
            Some(text) => fs::write(&path, text).unwrap(),
        }
        let look = session.arguments(&json!({}));
        let error = gateway.client.refused("native_session_status", &look);
        let text = error.body.to_string();
        assert_eq!(error.code, "ledger_unavailable", "{text}");
        assert!(text.contains("review") && !text.contains(CANARY), "{text}");
        assert!(!text.contains(gateway.state.to_str().unwrap()), "{text}");
    }
    assert_eq!(gateway.ctl(&["show", &session.id]).code, 0, "the owner still sees the session");
    fs::write(&path, BODY).unwrap();
    assert_eq!(session.status(0)["pending_turn"]["turn_id"], turn);
    shown(&mut session);
    fs::remove_file(&path).unwrap();
    assert_eq!(session.stop()["status"], "stopped");
    assert!(!gateway.log().contains(CANARY));
}

#[test]
fn the_text_is_in_its_file_and_nowhere_else() {
    let gateway = gateway();
    let mut session = begin(&gateway);
    shown(&mut session);
    for arguments in [vec!["status"], vec!["sessions"], vec!["show", &session.id], vec!["doctor"]] {
        let said = gateway.ctl(&arguments);
        assert!(!said.json.to_string().contains(CANARY), "{arguments:?} shows a skill: {}", said.json);
        let plain = gateway.command("gatewayctl").args(&arguments).output().unwrap();
        let text = [plain.stdout, plain.stderr].concat();
        assert!(!String::from_utf8_lossy(&text).contains(CANARY), "{arguments:?} shows a skill");
    }
    for process in gateway.runners() {
        assert!(!process.command.contains(CANARY), "{}", process.command);
    }
    session.finish("done");
    assert_eq!(holders(&gateway.state), [blob(&gateway, &session, BODY)]);
    session.stop();
    assert!(!gateway.log().contains(CANARY));
    let work = gateway.state.with_file_name("state-work");
    assert_eq!(holders(&work), Vec::<std::path::PathBuf>::new());
}

/// Files below `folder` that hold the canary.
fn holders(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(holders(&path));
        } else if path.is_file() && String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(CANARY) {
            found.push(path);
        }
    }
    found
}

#[test]
fn gatewayctl_prints_the_entry_that_a_start_then_accepts() {
    let mut gateway = Gateway::start();
    let folder = gateway.work.join("brief");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("SKILL.md");
    fs::write(&file, skill().replace('\n', "\r")).unwrap();
    gateway.kill();
    // Without a supervisor, and even with settings that can't be used.
    gateway.environment.insert("CLAUDE_TOOLS_LEASE_SECONDS".into(), "never".into());
    let printed = gateway.ctl(&["skill", "hash", file.to_str().unwrap()]);
    assert_eq!((printed.code, &printed.json["skill_id"]), (0, &json!("brief")), "{printed:?}");
    let plain = gateway.command("gatewayctl").args(["skill", "hash"]).arg(&file).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&plain.stdout).unwrap(), printed.json);
    assert_eq!(gateway.ctl(&["skill", "hash", folder.join("none").to_str().unwrap()]).code, 1);

    gateway.environment.insert("CLAUDE_TOOLS_LEASE_SECONDS".into(), "600".into());
    let list = json!([printed.json]).to_string();
    gateway.environment.insert("CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON".into(), list);
    gateway.start_again();
    let skills = json!([{"skill_id": "brief", "content": skill()}]);
    let view = gateway.client.call("native_session_start", &start(&gateway, &skills)).unwrap();
    Session::of(&gateway.client, view).stop();
}

#[test]
fn a_list_that_cannot_be_used_is_named_at_the_start() {
    let mut gateway = Gateway::start();
    gateway.kill();
    for (list, words) in [("[{", "line 1"), (r#"[{"skill_id":"a","content_sha256":"xyz"}]"#, "entry 0")] {
        gateway.environment.insert("CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON".into(), list.into());
        let served = gateway.command("gateway-supervisor").arg("serve").output().unwrap();
        let text = String::from_utf8_lossy(&served.stderr);
        assert!(!served.status.success() && served.stdout.is_empty());
        assert!(text.contains("CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON") && text.contains(words), "{text}");
    }
}
