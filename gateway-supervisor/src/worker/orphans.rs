//! What a worker that was killed may have left behind, found by what only this session's processes have, and ended.
//!
//! Invariant: a process is ended only if its identity is the recorded one, or if it carries this session's folder, whose name
//! is random, where only processes that the gateway started carry it.
#![expect(clippy::disallowed_methods, reason = "the reaper of a dead worker's children")]

use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use protocol::process_identity::ProcessIdentity;

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);

/// The folders that only this session's processes carry.
#[derive(Debug, Clone)]
pub(crate) struct Marks {
    /// The session's private folder.
    pub(crate) directory: PathBuf,
    /// Its scratch.
    pub(crate) scratch: PathBuf,
}

/// Ends this very process and its group, and waits until it is gone.
pub(crate) async fn end(identity: &ProcessIdentity) {
    let until = Instant::now() + PATIENCE;
    while identity.is_alive() {
        if Instant::now() > until {
            tracing::error!("a worker that was killed is still there");
            return;
        }
        if let Ok(pid) = i32::try_from(identity.pid) {
            // The worker leads its own session. Where either is gone already, that is what is wanted.
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends every process of the session that is left.
pub(crate) async fn sweep(marks: Marks) {
    let until = Instant::now() + PATIENCE;
    loop {
        let marks = marks.clone();
        let left = tokio::task::spawn_blocking(move || kill_marked(&marks)).await.unwrap_or(Ok(0));
        match left {
            Ok(0) => return,
            Ok(count) if Instant::now() > until => {
                tracing::error!(count, "processes of a session that were killed are still there");
                return;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "looking for what a worker left behind failed");
                return;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Kills what carries the marks and says how many there were.
#[cfg(target_os = "linux")]
fn kill_marked(marks: &Marks) -> io::Result<usize> {
    use std::os::unix::fs::MetadataExt;
    let own = nix::unistd::geteuid().as_raw();
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process may end while it is looked at.
        if !entry.metadata().is_ok_and(|found| found.uid() == own) || !marked(pid, marks) {
            continue;
        }
        // A zombie has no memory and so no marks: what is counted here still runs.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        killed += 1;
    }
    Ok(killed)
}

#[cfg(target_os = "linux")]
fn marked(pid: i32, marks: &Marks) -> bool {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let command = read("cmdline");
    let mut words = command.split(|byte| *byte == 0).map(OsStr::from_bytes);
    let program = words.next().map(Path::new).and_then(Path::file_name);
    if program == Some(OsStr::new("session-worker")) && words.next() == Some(marks.directory.as_os_str()) {
        return true;
    }
    let environment = read("environ");
    environment.split(|byte| *byte == 0).any(|variable| {
        let Some(at) = variable.iter().position(|byte| *byte == b'=') else { return false };
        let (name, value) = (&variable[..at], Path::new(OsStr::from_bytes(&variable[at + 1..])));
        matches!(name, b"CLAUDE_CONFIG_DIR" | b"HOME" | b"TMPDIR")
            && (value.starts_with(&marks.directory) || value.starts_with(&marks.scratch))
    })
}

/// macOS shows no other process's environment; what leaves the worker's group there ends when its standard input and its
/// model endpoint are gone.
#[cfg(target_os = "macos")]
fn kill_marked(_marks: &Marks) -> io::Result<usize> {
    Ok(0)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Command};

    use super::*;

    #[tokio::test]
    async fn only_processes_that_carry_the_session_are_ended() {
        let folder = tempfile::tempdir().unwrap();
        let marks = Marks { directory: folder.path().join("ses"), scratch: folder.path().join("scratch") };
        let sleeper = |name: &str, value: PathBuf| {
            Command::new("sleep")
                .arg("60")
                .env_clear()
                .env(name, value)
                .env("PATH", "/usr/bin:/bin")
                .spawn()
                .unwrap()
        };
        let mut ours = sleeper("CLAUDE_CONFIG_DIR", marks.directory.join("config"));
        let mut named_alike = sleeper("HOME", folder.path().join("ses-of-another"));
        let mut elsewhere = sleeper("OTHER", marks.directory.join("config"));
        // A child shows its parent's environment until it has replaced its program.
        let deadline = Instant::now() + Duration::from_secs(10);
        while !marked(i32::try_from(ours.id()).unwrap(), &marks) {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(LOOK).await;
        }
        sweep(marks).await;
        assert_eq!(ours.wait().unwrap().signal(), Some(9));
        for other in [&mut named_alike, &mut elsewhere] {
            assert!(other.try_wait().unwrap().is_none());
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }

    #[tokio::test]
    async fn a_process_is_ended_by_its_identity_and_no_other_that_has_its_pid() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        let another = ProcessIdentity { started: identity.started + 1, ..identity.clone() };
        end(&another).await;
        assert!(child.try_wait().unwrap().is_none());
        end(&identity).await;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
