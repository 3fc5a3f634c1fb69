//! [D1, P3, I4] What a hostile program in the place of a sub-session's can do: ask the one model under its fixed name, call the
//! tools of the worktree, and nothing else.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};
use tests::{Answer, Rig, binaries, delegation::KEY};

/// The main session's secrets and its port, as its own Claude Code has them.
fn secrets_of_main(rig: &Rig) -> (String, String, String) {
    let claude = rig.gateway.claude_code();
    let environment = fs::read(format!("/proc/{}/environ", claude.pid)).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let variable = |name: &str| {
        let found = environment.split('\0').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        found.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    let folder = rig.gateway.state.join("sessions").join(&rig.session.id);
    let config: Value = serde_json::from_slice(&fs::read(folder.join("claude/mcp.json")).unwrap()).unwrap();
    let bearer = config["mcpServers"]["gateway"]["headers"]["Authorization"].as_str().unwrap();
    let address = variable("ANTHROPIC_BASE_URL").strip_prefix("http://").unwrap().to_owned();
    (address, variable("ANTHROPIC_API_KEY"), bearer.strip_prefix("Bearer ").unwrap().to_owned())
}

/// Every try that had to fail failed, and the others are the few that may be.
#[cfg(target_os = "linux")]
fn nothing_went_through(told: &Value, (addresses, files, write): (&[String], &[String], &[String])) {
    let how =
        |what: &str| told[what].as_str().unwrap_or_else(|| panic!("not tried: {what} in {told}")).to_owned();
    for address in addresses {
        // In its own network the same number may be its own port.
        assert_ne!(how(&format!("connect {address}")), "done", "{told}");
    }
    for secret in 0..4 {
        for what in ["tools", "model"] {
            assert!(how(&format!("{what} with secret {secret}")).contains(" 401 "), "{told}");
        }
    }
    assert!(how("model without secret").contains(" 401 "), "{told}");
    let tools = how("tools");
    let mut names: Vec<_> = tools.split(' ').collect();
    names.sort_unstable();
    assert_eq!(names, ["Edit", "FindFiles", "NotebookEdit", "Read", "RunCommand", "SearchText", "Write"]);
    for refused in ["delegate", "bash"] {
        assert!(how(refused).contains("no such tool"), "{told}");
    }
    for path in ["/v1/models", "/v1/messages/count_tokens", "/", "/v1/complete"] {
        assert!(how(&format!("path {path}")).contains(" 404 "), "{told}");
    }
    for file in files {
        assert_ne!(how(&format!("read {file}")), "done", "{told}");
    }
    for file in write {
        assert_ne!(how(&format!("write {file}")), "done", "{told}");
    }
    assert_ne!(how("run"), "done", "{told}");
    assert_eq!((how("holders").as_str(), how("ask").contains(" 200 ")), ("", true), "{told}");
    assert!(how("processes").parse::<u32>().unwrap() <= 2, "it sees other processes: {told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_hostile_program_reaches_its_model_and_its_tools_and_nothing_else() {
    let program = binaries::example("stand_in");
    let mut rig = Rig::with(
        &[Answer::Text("answered".into()), Answer::Text("again".into())],
        &[("CLAUDE_TOOLS_DEEPSEEK_BIN", program.to_str().unwrap())],
    );
    let (main_port, bridge, executor) = secrets_of_main(&rig);
    let key_file = rig.gateway.environment["CLAUDE_TOOLS_DEEPSEEK_KEY_FILE"].clone();
    let state = rig.gateway.state.clone();
    let main = state.join("sessions").join(&rig.session.id);
    let model = rig.model.address.to_string();
    let gateway = rig.gateway.client.address.to_string();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let open = rig.gateway.work.join("open");
    fs::write(&open, "x").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
    let addresses = [main_port.clone(), model, gateway, "192.0.2.1:443".to_owned(), "[::1]:80".to_owned()];
    let files = [
        key_file,
        text(&state.join("token")),
        text(&main.join("journal")),
        text(&main.join("claude/mcp.json")),
        text(&open),
        text(&rig.file("a.txt")),
        "/etc/shadow".to_owned(),
        "/proc/1/mem".to_owned(),
    ];
    let write = [text(&rig.file("a.txt")), text(&open), "/tmp/evil".to_owned()];
    let orders = json!({
        "addresses": addresses, "files": files, "write": write, "needle": KEY.split_at(9).0,
        "secrets": [bridge, executor, rig.gateway.client.token, KEY],
    });
    let started = rig.tool("deepseek_subagent_start", json!({"task": orders.to_string(), "model": "sonnet"}));
    let end = rig.end_of(&started["id"]);
    assert_eq!(end["state"], "finished", "{end}");
    let told: Value = serde_json::from_str(end["text"].as_str().unwrap()).unwrap();
    nothing_went_through(&told, (&addresses, &files, &write));

    // What came out: the fixed name, the key, and nothing of the program's own headers, wherever it asked for.
    let asked = rig.model.asked();
    assert!(!asked.is_empty());
    for asked in asked {
        assert_eq!((&asked.body["model"], asked.path.as_str()), (&json!("the-flash"), "/v1/messages"));
        assert!(asked.body["metadata"].is_null() && !asked.head.contains("evil"), "{}", asked.head);
        assert!(asked.head.contains(KEY));
    }
    assert_eq!(fs::read_to_string(rig.file("a.txt")).unwrap(), "one\n");
    assert!(!Path::new("/tmp/evil").exists());
    rig.session.stop();
    rig.gateway.wait_for_no_runners();
}
