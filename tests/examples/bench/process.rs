//! What a process holds and how often it wakes, as Linux counts it; zero elsewhere.

use std::fs;

fn field(pid: i32, file: &str, name: &str) -> u64 {
    fs::read_to_string(format!("/proc/{pid}/{file}"))
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with(name))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

fn mib(kib: u64) -> f64 {
    f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / 1024.0
}

/// Resident memory in MiB.
pub(crate) fn resident_mib(pid: i32) -> f64 {
    mib(field(pid, "status", "VmRSS:"))
}

/// Memory that is the process's own, in MiB.
pub(crate) fn private_mib(pid: i32) -> f64 {
    mib(field(pid, "smaps_rollup", "Private_"))
}

/// How often its main thread went to sleep so far.
pub(crate) fn switches(pid: i32) -> u64 {
    field(pid, "status", "voluntary_ctxt_switches:")
}
