//! [T4, L2, L4, X7] A write happens once, whoever dies when: at every point where something becomes durable or visible, the
//! worker, the supervisor, or both are killed, and the end is the same tree as without; what is told of each action is true.
//!
//! The first pass of a scenario counts the hits of all points while the reply is carried out; then at each hit whoever has it
//! is stopped there, the victim is killed, and the other goes on. `GATEWAY_MATRIX=all` runs every reply in every profile with
//! every victim at every hit; other values, with commas between them, run the
//! replies whose `name/profile` contains one. It prints a table.

pub(crate) mod scenario;
pub(crate) mod scene;

use std::{
    collections::BTreeMap,
    env, panic,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use scenario::{Act, Scenario};
use scene::{Reference, Scene};
use tests::Victim;

/// Every reply of the matrix.
const REPLIES: [(&str, &[Act]); 7] = [
    ("Edit", &[Act::Edit]),
    ("Write", &[Act::Write]),
    ("Overwrite", &[Act::Overwrite]),
    ("NotebookEdit", &[Act::Notebook]),
    ("RunCommand", &[Act::Run]),
    ("Mixed", &[Act::Edit, Act::Read, Act::Search, Act::Run, Act::Write]),
    ("Writes", &[Act::Write, Act::Overwrite, Act::Notebook, Act::Edit]),
];

const PROFILES: [&str; 2] = ["direct_write", "worktree_write"];

/// How many gateways run at once in the whole matrix.
const AT_ONCE: usize = 2;

/// What became of each cell of one column.
type Column = Vec<(String, Victim, &'static str)>;

pub(crate) fn scenario(name: &str, profile: &'static str) -> Scenario {
    let (name, calls) = REPLIES.into_iter().find(|(known, _)| *known == name).unwrap();
    Scenario { name, profile, calls }
}

/// Kills this victim at each of the hits that are chosen, in one session.
fn column(scenario: Scenario, victim: Victim, chosen: impl Fn(&str, usize) -> bool) -> Column {
    let mut scene = Scene::new(scenario);
    let reference = scene.count();
    let column = cells(&mut scene, &reference, |point, hit| chosen(point, hit).then_some(victim));
    scene.end();
    column
}

fn cells(scene: &mut Scene, reference: &Reference, victim: impl Fn(&str, usize) -> Option<Victim>) -> Column {
    let mut column = Vec::new();
    for (point, hit) in &reference.hits {
        let Some(victim) = victim(point, *hit) else { continue };
        let told = scene.cell(reference, (point, *hit), victim);
        column.push((format!("{point}:{hit}"), victim, told));
    }
    column
}

/// The points of the worker, and of the supervisor while it records the preparation and the receipt.
fn is_of_the_write(point: &str, hit: usize) -> bool {
    point.starts_with("worker") || (2..=3).contains(&hit)
}

#[test]
fn an_edit_happens_once_whoever_dies() {
    let scenario = scenario("Edit", "direct_write");
    let mut scene = Scene::new(scenario);
    let reference = scene.count();
    // Each hit with one of the victims; the whole matrix takes each with all.
    let mut turn = 0;
    let victims = reference.hits.iter().map(|(point, hit)| {
        turn += usize::from(is_of_the_write(point, *hit));
        ((point.clone(), *hit), Victim::ALL[turn % Victim::ALL.len()])
    });
    let victims: BTreeMap<_, _> = victims.collect();
    cells(&mut scene, &reference, |point, hit| {
        victims.get(&(point.to_owned(), hit)).copied().filter(|_| is_of_the_write(point, hit))
    });
    scene.end();
}

#[test]
fn a_new_file_in_a_worktree_appears_once_when_both_die() {
    let chosen = [
        "worker-after-stage",
        "worker-after-prepared-acknowledged",
        "worker-after-directory",
        "worker-after-exchange",
        "supervisor-after-sync",
    ];
    let seen = column(scenario("Write", "worktree_write"), Victim::Both, |point, hit| {
        chosen.contains(&point) && hit == 1
    });
    assert_eq!(seen.len(), chosen.len(), "{seen:?}");
}

#[test]
fn a_reply_of_several_actions_is_told_action_by_action() {
    let seen = column(scenario("Mixed", "direct_write"), Victim::Worker, |point, hit| {
        (point == "worker-after-exchange" && hit == 2)
            || (point == "worker-after-receipt-acknowledged" && hit == 1)
            || point == "worker-after-command"
    });
    let told: Vec<_> = seen.iter().map(|(_, _, told)| *told).collect();
    assert!(told.contains(&"in doubt") && told.contains(&"applied"), "{seen:?}");
}

/// Hours on a busy machine; `scripts/bench matrix`.
#[test]
fn a_recovery_that_is_killed_itself_finds_out_the_same() {
    let mut scene = Scene::new(scenario("Write", "direct_write"));
    let reference = scene.count();
    // Before and after the new file has its name: directories and staged file are there, or the file is.
    for hit in [("worker-after-directory", 2), ("worker-after-exchange", 1)] {
        let (told, hits) = scene.cell_twice(&reference, hit, ("nowhere", 1));
        assert!(hits.iter().any(|(point, _)| point == "supervisor-before-burial"), "{hits:?}");
        let few = ["supervisor-before-burial", "supervisor-after-append"];
        let again =
            hits.iter().filter(|(point, hit)| whole() || (few.contains(&point.as_str()) && *hit == 1));
        for (point, number) in again {
            let (then, _) = scene.cell_twice(&reference, hit, (point, *number));
            assert_eq!(then, told, "{hit:?}, then {point}:{number}");
        }
    }
    scene.end();
}

fn whole() -> bool {
    env::var("GATEWAY_MATRIX").is_ok_and(|asked| is_asked_for(&asked, "Recovery"))
}

#[test]
fn the_whole_matrix() {
    let Ok(asked) = env::var("GATEWAY_MATRIX") else { return };
    let begun = Instant::now();
    let wanted = |name: &str, profile: &str| is_asked_for(&asked, &format!("{name}/{profile}"));
    let columns = PROFILES.into_iter().flat_map(|profile| {
        REPLIES.into_iter().flat_map(move |(name, _)| Victim::ALL.map(|victim| (name, profile, victim)))
    });
    let columns: Vec<_> = columns.filter(|(name, profile, _)| wanted(name, profile)).collect();
    let queue = Mutex::new(columns.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = |(name, profile, victim): (&'static str, &'static str, Victim)| {
        let begun = Instant::now();
        // A cell that fails says why; the other columns are worth their time all the same.
        let seen = panic::catch_unwind(|| column(scenario(name, profile), victim, |_, _| true));
        let title = format!("{name} {profile}, {victim:?} killed");
        match &seen {
            Ok(seen) => println!("{}", table(&title, seen, begun.elapsed().as_secs())),
            Err(_) => println!("{title}: FAILED"),
        }
        seen.map(|seen| seen.len()).ok()
    };
    let counted: Vec<Option<usize>> = thread::scope(|scope| {
        let work = || std::iter::from_fn(next).map(run).collect::<Vec<_>>();
        let runners: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        runners.into_iter().flat_map(|runner| runner.join().unwrap()).collect()
    });
    let (failed, cells) =
        (counted.iter().filter(|column| column.is_none()).count(), counted.iter().flatten());
    println!("{} cells in {} s; {failed} columns failed", cells.sum::<usize>(), begun.elapsed().as_secs());
    assert_eq!(failed, 0);
}

/// Whether what was asked for, parts of names with commas between them, takes this name.
pub(crate) fn is_asked_for(asked: &str, name: &str) -> bool {
    asked == "all" || asked.split(',').any(|part| name.contains(part))
}

/// One column as text: how many of its hits ended how, and the hits of each end.
fn table(title: &str, seen: &Column, seconds: u64) -> String {
    let mut ends: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (point, _, told) in seen {
        ends.entry(told).or_default().push(point);
    }
    let mut text = format!("{title}: {} hits, the same tree each time ({seconds} s)", seen.len());
    for (told, points) in ends {
        text.push_str(&format!("\n  {told:>12} {:>3}: {}", points.len(), points.join(" ")));
    }
    text
}
