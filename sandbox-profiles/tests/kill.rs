//! Whoever is killed at whatever moment, no process of a command is left.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "support/house.rs"]
#[expect(dead_code, reason = "the house is furnished for every test; this one uses a part of it")]
mod house;

use house::House;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Rounds; eight commands run at once in each, and more have come and gone.
const ROUNDS: u32 = 25;

/// Pids of this machine's processes whose command line holds `text`, with their command lines.
fn processes_naming(text: &str) -> Vec<(i32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_string_lossy().parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        })
        .filter(|(_, line)| line.contains(text))
        .collect()
}

/// Pids of all that descend from `root`.
fn descendants(root: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children: Vec<i32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        found.extend(&children);
        open.extend(children);
    }
    found
}

fn keeper_of(worker: &Child) -> i32 {
    let worker = i32::try_from(worker.id()).unwrap();
    let children = fs::read_to_string(format!("/proc/{worker}/task/{worker}/children")).unwrap();
    children.split_whitespace().next().expect("a keeper").parse().unwrap()
}

#[test]
fn nothing_is_left_whoever_is_killed() {
    let house = House::build();
    let scratch = house.at("scratch").display().to_string();
    for round in 0..ROUNDS {
        let mut worker = Command::new(house::hostile())
            .args(["work", &scratch])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(worker.stdout.take().unwrap());
        // A different moment each time: after so many commands were replaced by new ones.
        for _ in 0..=round % 7 {
            output.read_line(&mut String::new()).unwrap();
        }
        let keeper = keeper_of(&worker);
        let all = descendants(i32::try_from(worker.id()).unwrap());
        assert!(all.len() > 8, "the commands run: {all:?}");
        let starts: Vec<(i32, Option<String>)> = all.iter().map(|pid| (*pid, start_of(*pid))).collect();
        match round % 2 {
            0 => worker.kill().unwrap(),
            _ => kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap(),
        }
        // Without its keeper the worker ends by itself: it can start nothing any more.
        worker.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let left: Vec<i32> = starts
                .iter()
                .filter(|(pid, start)| start.is_some() && start_of(*pid) == *start)
                .map(|(pid, _)| *pid)
                .collect();
            let named = processes_naming(&scratch);
            if left.is_empty() && named.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "round {round}: {left:?} {named:?} are left");
            std::thread::yield_now();
        }
    }
}

/// When a living process started, to tell it from a later one of the same number.
fn start_of(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if *fields.first()? == "Z" {
        return None;
    }
    fields.get(19).map(ToString::to_string)
}
