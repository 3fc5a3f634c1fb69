//! [M8, R1, L5] Nothing private is shown, and nothing is left.

use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

use serde_json::json;
use tests::{Gateway, Session, key, until};

/// Whether any file below `folder` that is not `except` holds `needle`.
fn holders(folder: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(holders(&path, needle));
        } else if path.is_file() && String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(needle) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn what_is_shown_holds_no_secret_and_no_pid() {
    let mut gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let other = Session::start(&gateway.client, &gateway.work, "q");
    let lease = session.text("lease_id").to_owned();
    let mut shown = vec![session.status(0).to_string()];
    shown.push(format!(
        "{:?}",
        gateway
            .client
            .refused("native_session_status", &json!({"native_session_id": session.id, "lease_id": "x"}))
    ));
    let view = shown[0].clone();
    assert!(!view.contains(&gateway.client.token) && !view.contains(&other.recovery_token));
    assert!(!view.contains(&session.recovery_token), "only start shows the recovery token");
    assert!(!view.contains(gateway.state.to_str().unwrap()), "an internal path is shown: {view}");

    let pids: Vec<String> = gateway.runners().iter().map(|process| process.pid.to_string()).collect();
    assert!(!pids.is_empty());
    let id = session.id.as_str();
    for arguments in [
        vec!["sessions"],
        vec!["show", id],
        vec!["status"],
        vec!["ledger", id],
        vec!["ledger", id, "--verify"],
        vec!["ledger", id, "--diff"],
    ] {
        let page = gateway.command("gatewayctl").args(&arguments).output().unwrap().stdout;
        for said in [gateway.ctl(&arguments).json.to_string(), String::from_utf8(page).unwrap()] {
            assert!(!said.contains(&lease) && !said.contains(&gateway.client.token), "{arguments:?}: {said}");
            assert!(!said.contains(".sock"), "{arguments:?}: {said}");
            let named = said
                .split(|c: char| !c.is_ascii_alphanumeric())
                .find(|word| pids.iter().any(|pid| pid == word));
            assert_eq!(named, None, "{arguments:?} shows a pid: {said}");
        }
    }
    gateway.restart();
    session.recover(&key(), 10).unwrap();
    session.stop();
    let log = gateway.log();
    for secret in [&gateway.client.token, &session.recovery_token, &other.recovery_token, &lease] {
        assert!(!log.contains(secret.as_str()), "the log shows a secret");
    }
}

#[test]
fn a_workers_command_line_names_its_session_and_no_secret() {
    let gateway = Gateway::start();
    let session = Session::start(&gateway.client, &gateway.work, "p");
    let runners = gateway.runners();
    let worker = runners.iter().find(|p| p.is_worker()).unwrap();
    assert!(worker.command.contains(&format!("sessions/{}", session.id)), "{}", worker.command);
    for process in &runners {
        for secret in [&gateway.client.token, &session.recovery_token, &session.text("lease_id").to_owned()] {
            assert!(!process.command.contains(secret.as_str()), "{}", process.command);
        }
    }
}

#[test]
fn the_recovery_token_is_stored_nowhere() {
    let gateway = Gateway::start();
    let session = Session::start(&gateway.client, &gateway.work, "p");
    assert_eq!(holders(&gateway.state, &session.recovery_token), Vec::<String>::new());
}

#[test]
fn everything_in_the_state_is_the_owners_alone() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    session.finish("done");
    let mut open = vec![gateway.state.clone()];
    while let Some(path) = open.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_symlink() {
            continue;
        }
        assert_eq!(found.mode() & 0o077, 0, "{}: {:o}", path.display(), found.mode());
        if found.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        }
    }
}

#[test]
fn stop_leaves_no_process_and_claude_codes_records_stay() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    assert!(gateway.runners().len() >= 2, "a worker and Claude Code: {:?}", gateway.runners());
    session.stop();
    let left = gateway.runners();
    assert!(left.is_empty(), "stop returned before these were gone: {left:?}");
    assert!(gateway.state.join("sessions").join(&session.id).join("journal").is_file());
}

#[cfg(target_os = "linux")]
#[test]
fn connections_leave_no_descriptors_behind() {
    let gateway = Gateway::start();
    let open = || fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count();
    for _ in 0..20 {
        gateway.client.rpc("tools/list", &json!({})).unwrap();
    }
    let before = open();
    for _ in 0..100 {
        gateway.client.rpc("tools/list", &json!({})).unwrap();
    }
    until("the connections are closed", Duration::from_secs(10), || (open() <= before + 4).then_some(()));
}
