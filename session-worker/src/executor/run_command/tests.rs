//! Commands behind their walls. The helper is the built worker program: these tests need it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use protocol::{
    action::Prepared,
    failure::ToolErrorCode,
    id::ActionId,
    receipt::{CommandEnd, CommandRun, Facts, Receipt},
    timestamp::Timestamp,
    tool::ToolName,
};
use serde_json::Value;

use super::*;
use crate::executor::{
    fixture::{Place, action, recorded},
    outcome::ToolOutcome,
    tools::Surroundings,
};

mod git;

/// The worker's program, two folders above this test's.
fn helper() -> Helper {
    let own = std::env::current_exe().unwrap();
    let built = own.ancestors().nth(2).unwrap().join("session-worker");
    assert!(built.is_file(), "{} is missing: `cargo build -p session-worker` makes it", built.display());
    Helper::at(built)
}

struct Bench {
    place: Place,
    around: Surroundings,
    commands: Commands,
}

impl Bench {
    fn build() -> Self {
        let place = Place::build();
        let settings = CommandSettings {
            scratch: place.home().parent().unwrap().join("scratches/one"),
            environment: vec![
                ("PATH".into(), std::env::var("PATH").unwrap()),
                ("LANG".into(), "C.UTF-8".into()),
            ],
            helper: helper(),
        };
        let commands = Commands::open(settings).unwrap();
        Self { around: place.around(), place, commands }
    }

    fn scratch(&self) -> PathBuf {
        self.commands.scratch.path().to_path_buf()
    }

    fn plan(&self, input: RunCommand) -> Result<Plan, ToolFailure> {
        self.commands.plan(input, &self.around)
    }

    fn run(&self, input: RunCommand) -> Receipt {
        let plan = self.plan(input).unwrap();
        let prepared =
            Prepared { action_id: ActionId::mint(), prepared_at: Timestamp(1), effect: plan.effect() };
        let outcome: ToolOutcome = self.commands.run(plan, &recorded(prepared), &self.around);
        outcome.into_receipt(&action(ToolName::RunCommand, &Value::Null), Timestamp(0))
    }

    fn shell(&self, script: &str) -> Receipt {
        self.run(command(&["sh", "-c", script]))
    }
}

fn command(argv: &[&str]) -> RunCommand {
    let argv = argv.iter().map(ToString::to_string).collect();
    RunCommand { argv, cwd: None, timeout_seconds: None, stdin: None }
}

fn ran(receipt: &Receipt) -> &CommandRun {
    let Facts::Ran(run) = &receipt.facts else { panic!("{:?}: {}", receipt.facts, receipt.content) };
    run
}

#[test]
fn a_command_says_how_it_ended_and_what_it_wrote() {
    let bench = Bench::build();
    bench.place.put("note.txt", "a note\n");
    let receipt = bench.shell("cat note.txt; echo wrong >&2");
    assert!(receipt.content.starts_with("exit code: 0\n"), "{}", receipt.content);
    assert!(receipt.content.contains("--- stdout ---\na note\n"), "{}", receipt.content);
    assert!(receipt.content.contains("--- stderr ---\nwrong\n"), "{}", receipt.content);
    assert!(!receipt.is_error && receipt.error.is_none());
    assert_eq!(
        ran(&receipt),
        &CommandRun { end: CommandEnd::Exit(0), stdout_bytes: 7, stderr_bytes: 6, cut_bytes: 0 }
    );

    let receipt = bench.shell("exit 3");
    assert!(receipt.is_error && receipt.error.is_none() && receipt.content.starts_with("exit code: 3\n"));
    let receipt = bench.shell("kill -SEGV $$");
    assert!(receipt.is_error && receipt.content.starts_with("signal: 11\n"), "{}", receipt.content);
}

#[test]
fn arguments_are_exact_and_input_is_typed() {
    let bench = Bench::build();
    let receipt = bench.run(command(&["printf", "%s|", "a b", "$HOME", "*", "", "é"]));
    assert!(receipt.content.contains("a b|$HOME|*||é|"), "{}", receipt.content);
    let mut typed = command(&["cat"]);
    typed.stdin = Some("typed".into());
    assert!(bench.run(typed).content.ends_with("typed"));
    // Without input there is no pipe, which `rg` and others would take for what they should search.
    assert!(bench.shell("readlink /proc/self/fd/0").content.ends_with("/dev/null\n"));
    // Input that nobody reads holds nothing up.
    let mut unread = command(&["true"]);
    unread.stdin = Some("x".repeat(1 << 20));
    assert_eq!(ran(&bench.run(unread)).end, CommandEnd::Exit(0));
}

#[test]
fn time_is_bounded_and_a_stop_ends_it() {
    let bench = Bench::build();
    let mut long = command(&["sh", "-c", "trap '' TERM INT; echo begun; while :; do sleep 0.05; done"]);
    long.timeout_seconds = Some(1);
    let receipt = bench.run(long.clone());
    assert!(receipt.is_error && receipt.content.starts_with("timed out after 1 s\n"), "{}", receipt.content);
    assert!(receipt.content.contains("begun"));
    long.timeout_seconds = None;
    bench.around.stop.raise();
    let receipt = bench.run(long);
    assert_eq!(ran(&receipt).end, CommandEnd::Stopped, "{}", receipt.content);
}

#[test]
fn output_without_end_is_bounded_counted_and_shows_both_ends() {
    let bench = Bench::build();
    let receipt = bench.shell(
        "echo FIRST; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo LAST; yes e | head -n 50000 >&2",
    );
    assert!(receipt.content.len() <= protocol::limits::RECEIPT_BYTES);
    assert!(receipt.content.contains("FIRST") && receipt.content.contains("LAST"));
    let run = ran(&receipt);
    assert_eq!((run.stdout_bytes, run.stderr_bytes), (20_000_012, 100_000));
    assert!(run.cut_bytes > 19_900_000);
}

#[test]
fn nothing_is_written_but_the_scratch_which_is_kept() {
    let bench = Bench::build();
    bench.place.put("a.txt", "a");
    let receipt = bench.shell(
        "echo x > a.txt || echo x > new; echo kept > $TMPDIR/kept; touch ~/mine; echo $CARGO_TARGET_DIR",
    );
    assert!(
        receipt.content.contains(bench.scratch().join("target").to_str().unwrap()),
        "{}",
        receipt.content
    );
    assert_eq!(fs::read_to_string(bench.place.work("a.txt")).unwrap(), "a");
    assert!(!bench.place.work("new").exists());
    assert!(bench.shell("cat $TMPDIR/kept ~/mine").content.contains("kept"));
}

#[test]
fn secrets_and_other_sessions_scratches_are_closed() {
    let bench = Bench::build();
    let other = bench.scratch().parent().unwrap().join("two");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), "other's").unwrap();
    let secret = bench.place.home().join(".ssh/id");
    let receipt = bench.shell(&format!("cat {} {}/file", secret.display(), other.display()));
    assert!(
        !receipt.content.contains("needle") && !receipt.content.contains("other's"),
        "{}",
        receipt.content
    );
    // One that starts while the command runs.
    let later = bench.scratch().parent().unwrap().join("three");
    let script = format!("while ! test -e {0}; do sleep 0.01; done; cat {0}/file", later.display());
    let receipt = std::thread::scope(|scope| {
        let running = scope.spawn(|| bench.shell(&format!("touch $TMPDIR/begun; {script}")));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !bench.scratch().join("tmp/begun").exists() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let making = later.with_extension("making");
        fs::create_dir(&making).unwrap();
        fs::write(making.join("file"), "other's").unwrap();
        fs::rename(making, &later).unwrap();
        running.join().unwrap()
    });
    assert!(!receipt.content.contains("other's"), "{}", receipt.content);
}

#[test]
fn the_refusal_list_is_judged_through_paths_links_and_wrappers() {
    let bench = Bench::build();
    let link = bench.place.work("tidy");
    std::os::unix::fs::symlink("/bin/rm", &link).unwrap();
    let linked = bench.place.work("twice");
    std::os::unix::fs::symlink(&link, &linked).unwrap();
    let (link, linked) = (link.to_str().unwrap(), linked.to_str().unwrap());
    for refused in [
        &["rm", "-rf", "x"][..],
        &["/bin/rm", "x"],
        &[link, "x"],
        &[linked, "x"],
        &["env", "rm", "x"],
        &["env", "-i", "A=b", "-u", "C", "rm", "x"],
        &["env", "-S", "rm x"],
        &["nice", "-n", "5", "rm"],
        &["timeout", "-k", "1", "5", "rm"],
        &["xargs", "-n", "1", "rm"],
        &["env", "nice", "timeout", "5", "/bin/rm"],
        &["nohup", "dd", "if=x"],
        &["env", "claude"],
        &["env", "--", "mkfs.ext4", "x"],
        &["find", ".", "-delete"],
        &["find", ".", "-exec", "ls", ";"],
        &["find", ".", "-fprintf", "x", "y"],
        &["env", "find", ".", "-okdir", "x"],
        &["env", "rg", "--pre", "x", "y"],
        &["env", "rg", "--pre=x", "y"],
        &["env", "sudo", "-n", "true"],
        // A link behind a wrapper, and what is not even there.
        &["env", "A=b", linked, "x"],
        &["timeout", "5", "nice", link, "x"],
        &["sudo", "id"],
        &["doas", "id"],
        &["pkexec", "id"],
        &["/nowhere/at/all/sudo", "id"],
        &["busybox", "rm", "x"],
        &["mkfs.nothing", "x"],
        &["launchctl", "list"],
        &["systemctl", "stop", "x"],
        &["claude", "-p", "x"],
        &["codex"],
        &["gemini"],
        &["deepseek"],
        &["ollama", "run", "x"],
    ] {
        let failure = bench.plan(command(refused)).unwrap_err();
        assert_eq!(failure.code, ToolErrorCode::RefusedCommand, "{refused:?}: {failure}");
    }
    for allowed in [
        &["sh", "-c", "true"][..],
        &["env", "A=b", "true"],
        &["timeout", "5", "echo", "rm"],
        &["find", ".", "-name", "x"],
        &["grep", "-r", "rm", "."],
        &["xargs", "-I", "rm", "echo", "rm"],
    ] {
        bench.plan(command(allowed)).unwrap_or_else(|failure| panic!("{allowed:?}: {failure}"));
    }
    let missing = bench.plan(command(&["no-such-program-anywhere"])).unwrap_err();
    assert_eq!(missing.code, ToolErrorCode::NotFound);
}

#[test]
fn what_starts_a_program_in_another_way_is_a_wrapper_too() {
    let bench = Bench::build();
    for refused in [
        &["flock", "-w", "1", "lock", "rm", "x"][..],
        &["setpriv", "--reuid", "0", "--clear-groups", "rm", "x"],
        &["chroot", "/", "rm", "x"],
        &["setarch", "x86_64", "-R", "rm", "x"],
        &["runuser", "-u", "nobody", "true"],
        &["/lib64/ld-linux-x86-64.so.2", "--library-path", "/lib", "/bin/rm", "x"],
    ] {
        let failure = bench.plan(command(refused)).unwrap_err();
        assert_eq!(failure.code, ToolErrorCode::RefusedCommand, "{refused:?}: {failure}");
    }
}

#[test]
fn arguments_beyond_what_the_system_takes_are_too_large() {
    let bench = Bench::build();
    let receipt = bench.run(command(&["printf", &"x".repeat(200_000)]));
    assert_eq!(receipt.error, Some(ToolErrorCode::TooLarge), "{}", receipt.content);
}

#[test]
fn the_directory_is_judged() {
    let bench = Bench::build();
    let at = |directory: &Path| {
        let mut asked = command(&["pwd"]);
        asked.cwd = Some(directory.to_str().unwrap().to_owned());
        bench.plan(asked).map_err(|failure| failure.code)
    };
    assert_eq!(at(&bench.place.home().join(".ssh")).unwrap_err(), ToolErrorCode::ProtectedPath);
    assert_eq!(at(&bench.place.work("none")).unwrap_err(), ToolErrorCode::NotFound);
    assert!(at(Path::new("/")).is_ok());
}

#[test]
fn what_was_not_recorded_is_not_run() {
    let bench = Bench::build();
    let plan = bench.plan(command(&["touch", bench.scratch().join("ran").to_str().unwrap()])).unwrap();
    let effect = Effect::Command { argv: vec!["true".into()], cwd: "/".into() };
    let other = Prepared { action_id: ActionId::mint(), prepared_at: Timestamp(1), effect };
    let outcome = bench.commands.run(plan, &recorded(other), &bench.around);
    let receipt = outcome.into_receipt(&action(ToolName::RunCommand, &Value::Null), Timestamp(0));
    assert_eq!(receipt.error, Some(ToolErrorCode::Internal));
    assert!(!bench.scratch().join("ran").exists());
}
