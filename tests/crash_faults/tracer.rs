//! `strace`, attached to one process: counts its system calls, or fails one.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::Read,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tests::until;

/// Whose call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The session's worker's.
    Worker,
    /// The supervisor's.
    Supervisor,
}

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// SIGKILL, before it is made.
    Kill,
    /// It is not made and gives this error.
    Error(&'static str),
}

/// One call that fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) target: Target,
    pub(crate) call: &'static str,
    /// Among the calls of this name of one thread, from 1.
    pub(crate) number: usize,
    pub(crate) how: How,
}

/// An attached `strace`.
#[derive(Debug)]
pub(crate) struct Tracer {
    strace: Child,
    log: tempfile::NamedTempFile,
}

impl Tracer {
    /// Whether there is one that may attach to this process. A worker lets nobody look into it but root.
    pub(crate) fn may_attach(target: Target) -> bool {
        if target == Target::Worker && !nix::unistd::geteuid().is_root() {
            return false;
        }
        let Ok(mut sleeper) = Command::new("sleep").arg("60").spawn() else { return false };
        let pid = sleeper.id().to_string();
        let tried = Command::new("timeout").args(["-s", "INT", "1", "strace", "-p", &pid]).output();
        let _ = sleeper.kill();
        let _ = sleeper.wait();
        tried.is_ok_and(|tried| String::from_utf8_lossy(&tried.stderr).contains("attached"))
    }

    /// Attaches and only listens.
    pub(crate) fn listen(pid: i32, calls: &[&str]) -> Self {
        Self::attach(pid, &["-e", &format!("trace={}", calls.join(","))])
    }

    /// Attaches and fails one call.
    pub(crate) fn inject(pid: i32, fault: &Fault) -> Self {
        let Fault { call, number, how, .. } = fault;
        let what = match how {
            How::Kill => "signal=KILL".to_owned(),
            How::Error(error) => format!("error={error}"),
        };
        let inject = format!("inject={call}:{what}:when={number}");
        Self::attach(pid, &["-e", &format!("trace={call}"), "-e", &inject])
    }

    fn attach(pid: i32, arguments: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &pid.to_string()]).args(arguments).arg("-o").arg(log.path());
        let strace = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut tracer = Self { strace, log };
        until("strace is attached to every thread", Duration::from_secs(30), || {
            assert!(matches!(tracer.strace.try_wait(), Ok(None)), "{}", tracer.complaint());
            let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
            let traced = |path: std::path::PathBuf| {
                let status = fs::read_to_string(path.join("status")).unwrap_or_default();
                !status.contains("TracerPid:\t0\n")
            };
            threads.flatten().all(|thread| traced(thread.path())).then_some(())
        });
        tracer
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = &mut self.strace.stderr {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }

    /// Lets the process go; what was seen.
    pub(crate) fn detach(mut self) -> String {
        let _ = kill(Pid::from_raw(i32::try_from(self.strace.id()).unwrap()), Signal::SIGINT);
        let _ = self.strace.wait();
        fs::read_to_string(self.log.path()).unwrap_or_default()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // It lets go of what it traces when it ends.
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// The most calls that any one thread made, by name.
pub(crate) fn counted(log: &str, calls: &[&'static str]) -> BTreeMap<&'static str, usize> {
    let mut by_thread: HashMap<(&str, &'static str), usize> = HashMap::new();
    for line in log.lines() {
        let mut words = line.split_whitespace();
        let (Some(thread), Some(rest)) = (words.next(), words.next()) else { continue };
        if let Some(call) = calls.iter().find(|call| rest.split('(').next() == Some(**call)) {
            *by_thread.entry((thread, *call)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((_, call), count) in by_thread {
        let known = most.entry(call).or_default();
        *known = count.max(*known);
    }
    most
}
