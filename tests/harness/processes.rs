//! Processes as the system lists them.

use std::path::Path;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A process that belongs to a gateway's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its pid.
    pub pid: i32,
    /// Its command line, for messages.
    pub command: String,
}

impl Process {
    /// Whether it is a worker, rather than something that a worker started.
    #[must_use]
    pub fn is_worker(&self) -> bool {
        let program = self.command.split(' ').next().unwrap_or_default();
        Path::new(program).file_name().is_some_and(|name| name == "session-worker")
    }

    /// Whether it is Claude Code, by an argument that only it has.
    #[must_use]
    pub fn is_claude_code(&self) -> bool {
        self.command.contains("stream-json")
    }

    /// SIGKILL. A process that is gone already is as good.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Stops the process where it stands until [`Process::resume`].
    pub fn suspend(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Whether the process is stopped where it stands, or gone.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        let asked =
            std::process::Command::new("ps").args(["-o", "state=", "-p", &self.pid.to_string()]).output();
        let state =
            asked.map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned()).unwrap_or_default();
        state.is_empty() || state.starts_with(['T', 't', 'Z'])
    }

    /// Lets a suspended process go on.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.pid), signal);
    }
}

/// Processes whose command line or environment names `marker`, which is a path of this test's own.
#[must_use]
pub fn naming(marker: &str) -> Vec<Process> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let mut found: Vec<_> = all(marker).into_iter().filter(|p| p.pid != own).collect();
    found.sort_by_key(|p| p.pid);
    found
}

/// The children of a process.
#[must_use]
pub fn children(parent: i32) -> Vec<Process> {
    let listing = std::process::Command::new("ps").args(["-axo", "pid=,ppid=,command="]).output();
    let text = listing.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (pid, of) = (words.next()?.parse().ok()?, words.next()?.parse::<i32>().ok()?);
            (of == parent).then(|| Process { pid, command: words.collect::<Vec<_>>().join(" ") })
        })
        .collect()
}

#[cfg(target_os = "linux")]
fn all(marker: &str) -> Vec<Process> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Each file on its own: a process may close its environment to us and still show its command line.
        let read = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        if command.contains(marker) || String::from_utf8_lossy(&read("environ")).contains(marker) {
            found.push(Process { pid, command });
        }
    }
    found
}

#[cfg(not(target_os = "linux"))]
fn all(marker: &str) -> Vec<Process> {
    let listing = std::process::Command::new("ps").args(["-axwwE", "-o", "pid=,command="]).output();
    let text = listing.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines()
        .filter(|line| line.contains(marker))
        .filter_map(|line| {
            let (pid, command) = line.trim().split_once(' ')?;
            Some(Process { pid: pid.parse().ok()?, command: command.trim().to_owned() })
        })
        .collect()
}
