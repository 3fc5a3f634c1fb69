//! Ends processes below the worker, for good.
//!
//! Invariant: when [`reap`] returns there is no process left below the worker (Linux); on macOS the runner of each cage ends its own tree.
#![expect(clippy::disallowed_methods, reason = "the reaper of what the worker started")]

use std::time::{Duration, Instant};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How long killed processes may take to go: only one that hangs in the kernel takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether they are gone.
const LOOK: Duration = Duration::from_millis(2);

/// Kills and collects every process below this one: whoever leaves its group or parent comes to the worker, which is their
/// reaper. Only at the end: it collects children that somebody else may wait for.
pub(crate) async fn reap() {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for child in children() {
            // One that is gone already is what is wanted.
            let _ = kill(child, Signal::SIGKILL);
        }
        if !collect() {
            return;
        }
        if Instant::now() > deadline {
            tracing::error!("processes below the worker could not be ended in time");
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Collects what has ended and says whether anybody is left.
fn collect() -> bool {
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) => {}
            Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(target_os = "linux")]
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .map(Pid::from_raw)
        .collect()
}

#[cfg(target_os = "macos")]
fn children() -> Vec<Pid> {
    // What left its parent went to launchd; each cage's runner follows and ends it.
    Vec::new()
}
