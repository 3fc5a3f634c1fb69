//! What a command costs behind its walls, beside the same command without them. `scripts/bench` runs it on release binaries.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "it prints its table, starts what it compares with, and a number that can't be taken ends it"
)]

use std::{
    env, fs,
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{Gateway, Session, key, processes::Process};

const ROUNDS: usize = 100;
const WARM: usize = 10;
const BUILDS: usize = 5;
const MUCH: &str = "300000000";

fn main() {
    println!("{:<64} {:>9} {:>9}", "ms", "p50", "p99");
    let gateway = Gateway::start();
    fs::write(gateway.work.join("small"), "hello\n").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    launches(&gateway, &mut session);
    output(&gateway, &mut session);
    builds(&gateway, &mut session);
    session.stop();
}

fn launches(gateway: &Gateway, session: &mut Session) {
    let read = json!({"name": "Read", "input": {"file_path": gateway.work.join("small")}});
    let alone = sample(|| reply(session, &read));
    let through = sample(|| reply(session, &run(&["/bin/true"])));
    let spawned = sample(|| timed(&["/bin/true"]));
    row("posix_spawn of /bin/true, and its end", &spawned);
    if Command::new("bwrap").arg("--version").output().is_ok() {
        row(
            "bubblewrap --unshare-all of /bin/true",
            &sample(|| timed(&["bwrap", "--ro-bind", "/", "/", "--unshare-all", "/bin/true"])),
        );
    }
    row("a round with one small Read", &alone);
    row("a round with RunCommand /bin/true", &through);
    println!("{:<64} {:>9.2}", "  what the command adds (≤ 8)", p50(&through) - p50(&alone));
}

fn output(gateway: &Gateway, session: &mut Session) {
    let producer = ["head", "-c", MUCH, "/dev/zero"];
    let worker = gateway.runners().into_iter().find(Process::is_worker).expect("a worker").pid;
    let before = peak(worker);
    let alone = sorted((0..BUILDS).map(|_| drained(&producer)));
    let through = sorted((0..BUILDS).map(|_| reply(session, &run(&producer))));
    row("300 MB of output, the producer into a pipe", &alone);
    row("300 MB of output through RunCommand (≤ 1.2 ×)", &through);
    println!("{:<64} {:>9.1}", "  the worker's peak memory grew by, MiB (≤ 8)", peak(worker) - before);
}

fn builds(gateway: &Gateway, session: &mut Session) {
    let given = env::var("BENCH_CRATE").unwrap_or_else(|_| {
        fs::create_dir_all(gateway.work.join("src")).unwrap();
        fs::write(
            gateway.work.join("Cargo.toml"),
            "[package]\nname = \"c\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        )
        .unwrap();
        fs::write(gateway.work.join("src/lib.rs"), "#[test] fn adds() { assert_eq!(1 + 1, 2); }\n").unwrap();
        gateway.work.display().to_string()
    });
    let target = gateway.state.join("../target");
    let outside = || {
        let at = Instant::now();
        let built = Command::new("cargo")
            .args(["test", "--offline", "--quiet"])
            .current_dir(&given)
            .env("CARGO_TARGET_DIR", &target)
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
        at.elapsed()
    };
    outside();
    let inside = json!({"name": "RunCommand", "input": {"argv": ["cargo", "test", "--quiet"], "cwd": given, "timeout_seconds": 3600}});
    reply(session, &inside);
    let alone = sorted((0..BUILDS).map(|_| outside()));
    let through = sorted((0..BUILDS).map(|_| reply(session, &inside)));
    row("cargo test, warm, outside (BENCH_CRATE names the crate)", &alone);
    row("cargo test, warm, through RunCommand (≤ 1.1 ×)", &through);
}

fn run(argv: &[&str]) -> Value {
    json!({"name": "RunCommand", "input": {"argv": argv}})
}

fn reply(session: &mut Session, call: &Value) -> Duration {
    let turn = session.turn()["turn_id"].clone();
    let arguments = session
        .arguments(&json!({"turn_id": turn, "reply_id": key(), "tool_calls": [call], "wait_seconds": 50}));
    let at = Instant::now();
    let result = session
        .client
        .request("tools/call", &json!({"name": "native_session_reply_and_wait", "arguments": arguments}))
        .unwrap();
    session.view = result["structuredContent"].clone();
    let results = session.turn()["tool_results"].clone();
    assert_eq!(results[0]["is_error"], false, "{results}");
    at.elapsed()
}

fn timed(argv: &[&str]) -> Duration {
    let at = Instant::now();
    assert!(Command::new(argv[0]).args(&argv[1..]).status().unwrap().success(), "{argv:?}");
    at.elapsed()
}

fn drained(argv: &[&str]) -> Duration {
    let at = Instant::now();
    let mut child = Command::new(argv[0]).args(&argv[1..]).stdout(Stdio::piped()).spawn().unwrap();
    let (mut out, mut chunk) = (child.stdout.take().unwrap(), vec![0; 64 * 1024]);
    while out.read(&mut chunk).unwrap() > 0 {}
    child.wait().unwrap();
    at.elapsed()
}

fn sample(mut one: impl FnMut() -> Duration) -> Vec<f64> {
    for _ in 0..WARM {
        one();
    }
    sorted((0..ROUNDS).map(|_| one()))
}

fn sorted(taken: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut taken: Vec<f64> = taken.map(|one| one.as_secs_f64() * 1000.0).collect();
    taken.sort_by(f64::total_cmp);
    taken
}

fn p50(sample: &[f64]) -> f64 {
    sample[sample.len() / 2]
}

fn row(name: &str, sample: &[f64]) {
    println!("{name:<64} {:>9.2} {:>9.2}", p50(sample), sample[sample.len() * 99 / 100]);
}

/// The most memory that a process held so far, in MiB; zero where the system does not say.
fn peak(pid: i32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}
