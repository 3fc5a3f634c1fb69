//! [L2, L3, L5, M6] Whoever dies while a session starts, goes on, recovers, answers for the last time, loses its lease or
//! stops: the same call made again gets there, there is one session, and nothing is left running or lying about.
//!
//! At each hit of each point whoever has it is stopped there, the victim is killed, and the other goes on.
//! `GATEWAY_MATRIX=all` takes every hit with every victim, `scripts/bench matrix`.

mod stage;

use std::{env, time::Instant};

use stage::{Lifecycle, Stage};
use tests::Victim;

use crate::crash_matrix::is_asked_for;

/// Every call that moves a session from one state to another, and what happens by itself.
const LIFECYCLES: [Lifecycle; 9] = [
    Lifecycle::Start("read_only"),
    Lifecycle::Start("worktree_write"),
    Lifecycle::Continue,
    Lifecycle::ContinueWithNewWorker,
    Lifecycle::Recover,
    Lifecycle::Answer,
    Lifecycle::Stop,
    Lifecycle::StopByOwner,
    Lifecycle::LeaseRunsOut,
];

/// Kills this victim at the hits that are chosen; how each of them ended.
fn sweep(
    lifecycle: Lifecycle,
    victim: Victim,
    chosen: impl Fn(&str, usize) -> bool,
) -> Vec<(String, &'static str)> {
    let mut stage = Stage::new(lifecycle);
    let hits = stage.count();
    assert!(!hits.is_empty(), "the programs were built without their crash points");
    let mut ends = Vec::new();
    for (point, hit) in hits.iter().filter(|(point, hit)| chosen(point, *hit)) {
        ends.push((format!("{point}:{hit}"), stage.cell((point, *hit), victim)));
    }
    assert!(!ends.is_empty(), "none of the chosen points is passed: {hits:?}");
    ends
}

#[test]
fn a_start_that_is_cut_short_gives_one_session() {
    let chosen = ["supervisor-before-creation", "supervisor-after-creation", "supervisor-after-spawn"];
    sweep(Lifecycle::Start("direct_write"), Victim::Supervisor, |point, hit| {
        chosen.contains(&point) && hit == 1
    });
    sweep(Lifecycle::Start("worktree_write"), Victim::Both, |point, hit| {
        point == "supervisor-after-sync" && hit == 2
    });
}

#[test]
fn a_stop_that_is_cut_short_stops() {
    let chosen = ["supervisor-after-sync", "supervisor-before-burial", "supervisor-before-end"];
    sweep(Lifecycle::Stop, Victim::Supervisor, |point, hit| chosen.contains(&point) && hit == 1);
}

#[test]
fn a_recovery_and_a_new_worker_that_are_cut_short_come_all_the_same() {
    sweep(Lifecycle::Recover, Victim::Supervisor, |point, _| point == "supervisor-after-sync");
    sweep(Lifecycle::ContinueWithNewWorker, Victim::Supervisor, |point, _| {
        point == "supervisor-before-spawn"
    });
}

#[test]
fn a_lease_that_runs_out_while_the_supervisor_dies_has_run_out() {
    sweep(Lifecycle::LeaseRunsOut, Victim::Supervisor, |point, hit| {
        (point, hit) == ("supervisor-after-append", 1) || point == "supervisor-before-burial"
    });
}

#[test]
fn every_lifecycle_with_every_victim_at_every_hit() {
    let Ok(asked) = env::var("GATEWAY_MATRIX") else { return };
    for lifecycle in LIFECYCLES {
        let wanted = is_asked_for(&asked, &format!("{lifecycle:?}"));
        for victim in Victim::ALL.into_iter().filter(|_| wanted) {
            let begun = Instant::now();
            let ends = sweep(lifecycle, victim, |_, _| true);
            println!(
                "{lifecycle:?}, {victim:?} killed: {} hits ({} s)",
                ends.len(),
                begun.elapsed().as_secs()
            );
            for (hit, end) in ends {
                println!("  {hit}: {end}");
            }
        }
    }
}
