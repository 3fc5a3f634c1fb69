//! Launching, hearing how it ended, and leaving nothing behind.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "support/house.rs"]
mod house;

use house::{House, Outcome, finish, helper, run};
use sandbox_profiles::{
    WallError,
    launch::{CommandCages, Ending, Request, spawn_command},
};
use std::{
    fs,
    io::{Read, Write},
    time::{Duration, Instant},
};

fn said(text: &str) -> Outcome {
    Outcome { ending: Ending::Exited(0), stdout: text.into(), stderr: String::new() }
}

#[test]
fn a_command_reads_its_arguments_environment_and_input() {
    let (house, cages) = (House::build(), CommandCages::open(&helper()).unwrap());
    let outcome = run(&cages, &house.spec(), &house.program(&["/bin/echo", "a b", "", "c"]));
    assert_eq!(outcome, said("a b  c\n"));
    let outcome = run(&cages, &house.spec(), &house.program(&["/usr/bin/env"]));
    assert_eq!(outcome, said("PATH=/usr/local/bin:/usr/bin:/bin\n"));
    let mut caged = spawn_command(&cages, &house.spec(), &house.program(&["/bin/cat"])).unwrap();
    caged.stdin.take().unwrap().write_all(b"typed").unwrap();
    assert_eq!(finish(caged), said("typed"));
    let outcome = run(&cages, &house.spec(), &house.shell("pwd; cat main.rs; echo wrong >&2; exit 3"));
    assert_eq!(outcome.ending, Ending::Exited(3));
    assert_eq!(outcome.stdout, format!("{}\nopen", house.at("home/project").display()));
    assert_eq!(outcome.stderr, "wrong\n");
}

#[test]
fn a_signal_is_told_and_a_missing_program_is_an_error() {
    let (house, cages) = (House::build(), CommandCages::open(&helper()).unwrap());
    assert_eq!(run(&cages, &house.spec(), &house.shell("kill -SEGV $$")).ending, Ending::Signaled(11));
    let missing = spawn_command(&cages, &house.spec(), &house.program(&["/no/such/program"]));
    assert!(matches!(missing, Err(WallError::Exec { .. })), "{missing:?}");
    // The helper lives on.
    assert_eq!(run(&cages, &house.spec(), &house.program(&["/bin/true"])), said(""));
}

#[test]
fn the_scratch_is_writable_and_kept_and_nothing_else_is_writable() {
    let (house, cages) = (House::build(), CommandCages::open(&helper()).unwrap());
    let scratch = house.at("scratch");
    let script = format!("echo kept > {0}/file && chmod 700 {0}/file", scratch.display());
    assert_eq!(run(&cages, &house.spec(), &house.shell(&script)), said(""));
    assert_eq!(fs::read_to_string(scratch.join("file")).unwrap(), "kept\n");
    let again = run(&cages, &house.spec(), &house.shell(&format!("cat {}/file", scratch.display())));
    assert_eq!(again, said("kept\n"));
    let outcome = run(&cages, &house.spec(), &house.shell("echo x > main.rs"));
    assert_ne!(outcome.ending, Ending::Exited(0));
    assert_eq!(fs::read_to_string(house.at("home/project/main.rs")).unwrap(), "open");
}

#[test]
fn secrets_are_closed() {
    let (house, cages) = (House::build(), CommandCages::open(&helper()).unwrap());
    for secret in ["home/.ssh/id", "home/.netrc", "home/state/token"] {
        let outcome =
            run(&cages, &house.spec(), &house.program(&["/bin/cat", house.at(secret).to_str().unwrap()]));
        assert_eq!(outcome.stdout, "", "{secret}");
        assert_eq!(outcome.ending, Ending::Exited(1), "{secret}");
    }
}

/// A daemon that ignores signals, has its own session, and would write to a file when it lives on.
fn daemon(house: &House) -> String {
    let scratch = house.at("scratch");
    format!(
        "trap '' TERM INT HUP; (trap '' TERM INT HUP; setsid sh -c 'echo $$ > {0}/pid; while :; do sleep 0.05; done' &) ; \
         while ! test -s {0}/pid; do sleep 0.01; done; echo ready; ",
        scratch.display()
    )
}

/// Processes of this machine whose arguments name the house.
fn processes_of(house: &House) -> Vec<String> {
    let name = house.at("").display().to_string();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|arguments| String::from_utf8_lossy(&arguments).into_owned())
        .filter(|arguments| arguments.contains(name.trim_end_matches('/')))
        .collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn nothing_outlives_the_command_its_killing_or_its_caller() {
    let (house, cages) = (House::build(), CommandCages::open(&helper()).unwrap());
    let outcome = run(&cages, &house.spec(), &house.shell(&(daemon(&house) + "exit 0")));
    assert_eq!(outcome, said("ready\n"));
    assert_eq!(processes_of(&house), Vec::<String>::new(), "after a normal end");

    fs::remove_file(house.at("scratch/pid")).unwrap();
    let caged = spawn_command(&cages, &house.spec(), &house.shell(&(daemon(&house) + "sleep 1000"))).unwrap();
    eventually("it starts", || house.at("scratch/pid").metadata().is_ok_and(|file| file.len() > 0));
    caged.kill_tree().unwrap();
    assert_eq!(caged.wait().unwrap(), Ending::Killed);
    assert_eq!(processes_of(&house), Vec::<String>::new(), "after a kill");

    fs::remove_file(house.at("scratch/pid")).unwrap();
    let caged = spawn_command(&cages, &house.spec(), &house.shell(&(daemon(&house) + "sleep 1000"))).unwrap();
    eventually("it starts", || house.at("scratch/pid").metadata().is_ok_and(|file| file.len() > 0));
    drop(cages);
    assert_eq!(processes_of(&house), Vec::<String>::new(), "after the helper ended");
    assert_eq!(caged.wait().unwrap(), Ending::Lost);
}

#[test]
fn commands_run_side_by_side_without_holding_each_other() {
    let (house, cages) = (House::build(), CommandCages::open(&helper()).unwrap());
    let long = spawn_command(&cages, &house.spec(), &house.program(&["/bin/sleep", "1000"])).unwrap();
    for _ in 0..3 {
        assert_eq!(run(&cages, &house.spec(), &house.program(&["/bin/true"])), said(""));
    }
    assert_eq!(long.wait_until(Instant::now()).unwrap(), None);
    long.ask(Request::Terminate).unwrap();
    assert_eq!(long.wait().unwrap(), Ending::Signaled(15));
}

#[test]
fn a_pause_holds_the_program_until_it_is_resumed() {
    let (house, cages) = (House::build(), CommandCages::open(&helper()).unwrap());
    let mut caged = spawn_command(&cages, &house.spec(), &house.program(&["/bin/cat"])).unwrap();
    caged.ask(Request::Pause).unwrap();
    let state = format!("/proc/{}/stat", caged.pid());
    eventually("it stops", || fs::read_to_string(&state).unwrap().contains("(cat) T"));
    let mut input = caged.stdin.take().unwrap();
    input.write_all(b"x").unwrap();
    drop(input);
    caged.ask(Request::Resume).unwrap();
    let mut text = String::new();
    caged.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "x");
    assert_eq!(caged.wait().unwrap(), Ending::Exited(0));
}

#[test]
fn output_that_nobody_reads_does_not_keep_a_killed_command() {
    let (house, cages) = (House::build(), CommandCages::open(&helper()).unwrap());
    let caged = spawn_command(&cages, &house.spec(), &house.program(&["/usr/bin/yes"])).unwrap();
    caged.kill_tree().unwrap();
    assert_eq!(caged.wait().unwrap(), Ending::Killed);
}
