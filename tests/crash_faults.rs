//! [L4, X7] At each system call of a write by which something gets onto the disk, the process that makes it is killed, or the
//! call fails (no space, input/output error): a clear error, nothing lost, nothing done twice, and the session goes on.
//!
//! The calls are counted and failed by `strace`; where it is not installed or may not attach, these tests say so loudly and
//! prove nothing. `GATEWAY_FAULTS=all` fails every call of both processes (`scripts/bench faults`); other values take
//! the faults whose name contains one of them.

mod cell;
mod tracer;

use std::{collections::BTreeMap, env, panic, time::Instant};

use tracer::{Fault, How, Target, Tracer};

use crate::crash_matrix::{is_asked_for, scenario, scene::Scene};

/// The calls that put something onto the disk, by process.
const CALLS: [(Target, &[&str]); 2] = [
    (
        Target::Worker,
        &["openat", "write", "fsync", "fdatasync", "rename", "renameat2", "unlinkat", "mkdirat", "fchmod"],
    ),
    (Target::Supervisor, &["openat", "write", "pwrite64", "fsync", "fdatasync", "ftruncate"]),
];

const HOW: [How; 3] = [How::Kill, How::Error("EIO"), How::Error("ENOSPC")];

/// One fault in a scene of its own.
fn one(name: &str, fault: &Fault) -> String {
    let mut scene = Scene::new(scenario(name, "direct_write"));
    let reference = scene.count();
    let told = scene.fault(&reference, fault);
    scene.end();
    told
}

#[expect(clippy::print_stdout, reason = "what is not proven here must be seen")]
fn may_trace(target: Target) -> bool {
    let may = Tracer::may_attach(target);
    if !may {
        println!("NOT PROVEN: strace is not installed, or may not attach to the {target:?} here");
    }
    may
}

#[test]
fn a_write_that_the_disk_refuses_leaves_nothing_and_can_be_made_again() {
    if !may_trace(Target::Worker) {
        return;
    }
    let mut scene = Scene::new(scenario("Write", "direct_write"));
    let reference = scene.count();
    let [full, broken] = ["ENOSPC", "EIO"].map(How::Error);
    for (call, number, how, expected) in [
        ("fsync", 1, full, "not_applied"),
        // The staged file's mode, and that of a directory made for it.
        ("fchmod", 1, broken, "not_applied"),
        ("fchmod", 2, broken, "not_applied"),
        ("renameat2", 1, broken, "not_applied"),
        ("renameat2", 1, How::Kill, "done again"),
    ] {
        let told = scene.fault(&reference, &Fault { target: Target::Worker, call, number, how });
        assert!(told.contains(expected) && !told.contains("not reached"), "{call} {number}: {told}");
    }
    scene.end();
}

#[test]
fn a_record_that_can_not_be_written_holds_the_session_up_until_it_can() {
    if !may_trace(Target::Supervisor) {
        return;
    }
    // The reply's record, which the call asks for, and the preparation's, which nobody waits for outside.
    for (call, number, how, expected) in [
        ("fdatasync", 1, How::Error("EIO"), "ledger_unavailable, restarted"),
        ("fdatasync", 2, How::Error("EIO"), "held up, restarted"),
        ("pwrite64", 1, How::Error("ENOSPC"), "ok"),
    ] {
        let told = one("Edit", &Fault { target: Target::Supervisor, call, number, how });
        assert!(told.contains(expected), "{call} {number}: {told}");
    }
}

#[test]
fn every_call_fails_once() {
    let Ok(asked) = env::var("GATEWAY_FAULTS") else { return };
    assert!(
        CALLS.iter().all(|(target, _)| may_trace(*target)),
        "strace, and root for the worker, are needed for this"
    );
    let (begun, mut failed, mut all) = (Instant::now(), 0, 0);
    for reply in ["Write", "Overwrite", "Edit"] {
        for (target, calls) in CALLS {
            let counted = Scene::new(scenario(reply, "direct_write")).calls(target, calls);
            let faults = faults(reply, target, &counted);
            let faults = faults.into_iter().filter(|(name, _)| is_asked_for(&asked, name));
            let mut scene = None;
            for (name, fault) in faults {
                all += 1;
                let (mut at_hand, reference) = scene.take().unwrap_or_else(|| {
                    let mut scene = Scene::new(scenario(reply, "direct_write"));
                    let reference = scene.count();
                    (scene, reference)
                });
                // One that fails says why; the others are worth their time all the same.
                let told = panic::catch_unwind(panic::AssertUnwindSafe(|| at_hand.fault(&reference, &fault)));
                match told {
                    Ok(told) => {
                        println!("{name}: {told}");
                        scene = Some((at_hand, reference));
                    }
                    Err(_) => {
                        println!("{name}: FAILED");
                        failed += 1;
                    }
                }
            }
            if let Some((scene, _)) = scene {
                scene.end();
            }
        }
    }
    println!("{all} faults in {} s, {failed} failed", begun.elapsed().as_secs());
    assert_eq!(failed, 0);
}

fn faults(reply: &str, target: Target, counted: &BTreeMap<&'static str, usize>) -> Vec<(String, Fault)> {
    let mut faults = Vec::new();
    for (call, count) in counted {
        for number in 1..=*count {
            for how in HOW {
                let fault = Fault { target, call, number, how };
                faults.push((format!("{reply}: {target:?}, {call} {number}, {how:?}"), fault));
            }
        }
    }
    faults
}
