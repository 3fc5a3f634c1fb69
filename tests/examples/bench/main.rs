//! How fast the gateway is beside what it can't be faster than: Claude Code against a stub that answers at once.
//!
//! Medians and tails from one run, on one machine, with the comparison beside each number. `scripts/bench` runs it on
//! release binaries.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "it prints its table, and a number that can't be taken ends it"
)]

mod bare;
mod numbers;
mod process;
mod stub;

use std::{fs, time::Instant};

use bare::Bare;
use numbers::{Sample, row};
use serde_json::{Value, json};
use tests::{Gateway, Session, key};

/// Rounds of a run that is measured, after those that warm it up.
const ROUNDS: usize = 200;
const WARM: usize = 10;

/// Sessions that are started one after another.
const STARTS: usize = 10;

/// Prompts to one process.
const PROMPTS: usize = 30;

/// Restarts of the supervisor.
const RESTARTS: usize = 10;

/// Results of 64 KiB that make a history of some 2.6 MB.
const LARGE: usize = 40;

fn main() {
    println!("{:<58} {:>9} {:>9} {:>9}", "ms", "p50", "p99", "aim p50");
    starts();
    let bare = prompts();
    rounds(&bare);
    large_bodies(&bare);
    drop(bare);
    restarts();
    memory();
}

/// `native_session_start` until its first pending turn, beside Claude Code's spawn until its first request.
fn starts() {
    let spawned = Sample::take(STARTS, || {
        let started = Instant::now();
        let bare = Bare::spawn();
        bare.prompt();
        bare.next_request() - started
    });
    let gateway = Gateway::start();
    let mut sessions = Vec::new();
    let started = Sample::take(STARTS, || {
        let at = Instant::now();
        sessions.push(Session::start(&gateway.client, &gateway.work, "p"));
        at.elapsed()
    });
    row("Claude Code: spawn → first request", &spawned, None);
    row("start → first pending turn (≤ 1.15 ×)", &started, Some(spawned.p50() * 1.15));
    sessions.iter_mut().for_each(|session| drop(session.stop().clone()));
}

/// `native_session_continue` on a live runner, beside a prompt to a kept process.
fn prompts() -> Bare {
    let bare = Bare::spawn();
    bare.prompt();
    bare.next_request();
    bare.answer_text();
    let alone = Sample::take(PROMPTS, || {
        bare.wait_for_end();
        let at = Instant::now();
        bare.prompt();
        let taken = bare.next_request() - at;
        bare.answer_text();
        taken
    });
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let through = Sample::take(PROMPTS, || {
        session.finish("done");
        let at = Instant::now();
        session.go_on("q");
        session.turn();
        at.elapsed()
    });
    row("Claude Code: prompt to a kept process → request", &alone, None);
    row("continue on a live runner → pending turn", &through, Some(25.0));
    bare.wait_for_end();
    bare
}

/// One tool round with one small Read: the client's reply until the next pending turn, everything durable.
fn rounds(bare: &Bare) {
    bare.prompt();
    bare.next_request();
    let alone = Sample::take(ROUNDS, || bare.round("x"));
    bare.answer_text();
    bare.wait_for_end();

    let gateway = Gateway::start();
    fs::write(gateway.work.join("small"), "hello\n").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let input = json!({"file_path": gateway.work.join("small")});
    for _ in 0..WARM {
        round(&mut session, &input);
    }
    let through = Sample::take(ROUNDS, || round(&mut session, &input));
    row("Claude Code: one tool round against the stub", &alone, None);
    row("one tool round through the gateway (share ≤ 3)", &through, Some(alone.p50() + 3.0));
    println!(
        "{:<58} {:>9.2} {:>9.2} {:>9}",
        "  the gateway's share",
        through.p50() - alone.p50(),
        through.p99() - alone.p50(),
        "3 / 12"
    );
    let eight: Vec<Value> = (0..8).map(|_| json!({"name": "Read", "input": input})).collect();
    let overlapped = Sample::take(PROMPTS, || reply(&mut session, &eight));
    row("8 small Reads in one reply", &overlapped, None);
}

/// The same with 2.6 MB of history in every request.
fn large_bodies(bare: &Bare) {
    let text = "0123456789abcdef".repeat(4 * 1024 - 64);
    bare.prompt();
    bare.next_request();
    for _ in 0..LARGE {
        bare.round(&text);
    }
    let alone = Sample::take(ROUNDS / 4, || bare.round("x"));
    bare.answer_text();

    let gateway = Gateway::start();
    fs::write(gateway.work.join("large"), format!("{}\n", &text[..99]).repeat(700)).unwrap();
    fs::write(gateway.work.join("small"), "hello\n").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    for _ in 0..LARGE {
        round(&mut session, &json!({"file_path": gateway.work.join("large")}));
    }
    let input = json!({"file_path": gateway.work.join("small")});
    let through = Sample::take(ROUNDS / 4, || round(&mut session, &input));
    row("Claude Code: a round with 2.6 MB of history", &alone, None);
    row("the same through the gateway (share ≤ 15)", &through, Some(alone.p50() + 15.0));
}

fn round(session: &mut Session, input: &Value) -> std::time::Duration {
    reply(session, &[json!({"name": "Read", "input": input})])
}

fn reply(session: &mut Session, calls: &[Value]) -> std::time::Duration {
    let turn = session.turn()["turn_id"].clone();
    let arguments = session
        .arguments(&json!({"turn_id": turn, "reply_id": key(), "tool_calls": calls, "wait_seconds": 50}));
    let message = json!({"name": "native_session_reply_and_wait", "arguments": arguments});
    let at = Instant::now();
    // One connection: what a connector's handshake costs is measured beside `status`.
    let result = session.client.request("tools/call", &message).unwrap();
    session.view = result["structuredContent"].clone();
    session.turn();
    at.elapsed()
}

/// kill -9 until the ready line, which comes when every worker is attached again.
fn restarts() {
    for live in [0, 1, 16] {
        let mut gateway = Gateway::start();
        let sessions: Vec<_> =
            (0..live).map(|_| Session::start(&gateway.client, &gateway.work, "p")).collect();
        let taken = Sample::take(RESTARTS, || {
            gateway.kill();
            let at = Instant::now();
            gateway.start_again();
            at.elapsed()
        });
        let aim = if live == 0 { 30.0 } else { 130.0 };
        row(&format!("supervisor: start → ready, {live} live sessions"), &taken, Some(aim));
        let idle = process::resident_mib(gateway.pid());
        println!(
            "{:<58} {idle:>9.1} {:>9} {:>9}",
            format!("  its resident memory, MiB, {live} live sessions"),
            "",
            20
        );
        drop(sessions);
    }
}

/// What a worker holds, fresh and after 100 turns.
fn memory() {
    let gateway = Gateway::start();
    fs::write(gateway.work.join("small"), "hello\n").unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let worker = gateway.runners().into_iter().find(tests::processes::Process::is_worker).expect("a worker");
    let fresh = process::private_mib(worker.pid);
    for _ in 0..100 {
        round(&mut session, &json!({"file_path": gateway.work.join("small")}));
    }
    println!("{:<58} {fresh:>9.1} {:>9} {:>9}", "worker: private memory at the first turn, MiB", "", 3);
    let resident = process::resident_mib(worker.pid);
    println!("{:<58} {resident:>9.1} {:>9} {:>9}", "worker: resident memory after 100 turns, MiB", "", 24);
    let before = process::switches(worker.pid);
    std::thread::sleep(std::time::Duration::from_secs(10));
    let woken = process::switches(worker.pid) - before;
    println!("{:<58} {woken:>9} {:>9} {:>9}", "worker: wake-ups in 10 s while a turn waits", "", "few");
}
