//! The named points of a gateway that was built with them: counted, and stopped at one by one.
//!
//! Invariant: nothing counts and nobody stops but between `arm` and `disarm`.

use std::{collections::HashMap, fs, path::PathBuf, time::Duration};

use crate::{Gateway, processes::Process, until};

/// Who dies where a process stands at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The session's worker.
    Worker,
    /// The supervisor.
    Supervisor,
    /// Both.
    Both,
}

impl Victim {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Worker, Self::Supervisor, Self::Both];
}

/// The points of one gateway, which must be started with [`CrashPoints::setting`].
#[derive(Debug)]
pub struct CrashPoints {
    folder: tempfile::TempDir,
}

impl Default for CrashPoints {
    fn default() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }
}

impl CrashPoints {
    /// What a gateway is told of them.
    ///
    /// # Panics
    /// Where the temporary folder's name is no UTF-8.
    #[must_use]
    pub fn setting(&self) -> (&'static str, String) {
        ("CLAUDE_TOOLS_CRASH_COUNT", self.hits_file().to_str().expect("a path of UTF-8").to_owned())
    }

    /// From here on hits count, and whoever has the one that is asked for, as `name` and number, stops there.
    ///
    /// # Panics
    /// Where that can't be written.
    pub fn arm(&self, asked: Option<(&str, usize)>) {
        if let Some((name, number)) = asked {
            fs::write(self.beside("asked"), format!("{name}:{number}")).expect("written");
        }
        fs::write(self.hits_file(), "").expect("written");
    }

    /// From here on hits count, and the thread that has this one waits there, while its process goes on.
    ///
    /// # Panics
    /// Where that can't be written.
    pub fn hold(&self, (name, number): (&str, usize)) {
        fs::write(self.beside("held"), format!("{name}:{number}")).expect("written");
        fs::write(self.hits_file(), "").expect("written");
    }

    /// Waits until somebody is held.
    ///
    /// # Panics
    /// Where nobody comes.
    pub fn wait_for_held(&self) {
        until("somebody comes to the point", Duration::from_secs(60), || {
            self.beside("holding").exists().then_some(())
        });
    }

    /// Waits until this point was passed while somebody is held.
    ///
    /// # Panics
    /// Where it is not.
    pub fn wait_for_hit(&self, name: &str) {
        until(&format!("{name} is passed"), Duration::from_secs(60), || {
            self.hits().iter().any(|(hit, _)| hit == name).then_some(())
        });
    }

    /// Nobody stops any more.
    pub fn disarm(&self) {
        for ending in ["asked", "stopped", "held", "holding"] {
            // Not all of them are there.
            let _ = fs::remove_file(self.beside(ending));
        }
        let _ = fs::remove_file(self.hits_file());
    }

    /// Every hit so far, with its number among those of the same name.
    #[must_use]
    pub fn hits(&self) -> Vec<(String, usize)> {
        let text = fs::read_to_string(self.hits_file()).unwrap_or_default();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let numbered = text.lines().map(|name| {
            let number = numbers.entry(name).or_default();
            *number += 1;
            (name.to_owned(), *number)
        });
        numbered.collect()
    }

    /// The process that stands at the point, once it does.
    #[must_use]
    pub fn stopped(&self) -> Option<Process> {
        let pid = fs::read_to_string(self.beside("stopped")).ok()?.parse().ok()?;
        let process = Process { pid, command: String::new() };
        process.stands_still().then_some(process)
    }

    /// Waits until somebody stands at the point or `over` says that nobody will; kills the victim, and lets the other one go
    /// on. False where nobody came to the point.
    ///
    /// # Panics
    /// Where neither happens.
    pub fn strike(&self, gateway: &mut Gateway, victim: Victim, over: impl Fn() -> bool) -> bool {
        let stopped = until("somebody comes to the point, or it is over", Duration::from_secs(60), || {
            self.stopped().map(Some).or_else(|| over().then_some(None))
        });
        // Who comes to a point and leaves his pid just when it is over has stopped all the same.
        let stopped = stopped.or_else(|| self.beside("stopped").exists().then(|| self.wait_for_stopped()));
        let stands = match &stopped {
            None => None,
            Some(process) if process.pid == gateway.pid() => Some(Victim::Supervisor),
            Some(_) => Some(Victim::Worker),
        };
        if stands.is_some() {
            if victim != Victim::Supervisor {
                gateway.runners().iter().filter(|process| process.is_worker()).for_each(Process::kill);
            }
            if victim != Victim::Worker {
                gateway.kill();
            }
        }
        self.disarm();
        if stands != Some(victim) && victim != Victim::Both {
            stopped.iter().for_each(Process::resume);
        }
        stands.is_some()
    }

    fn wait_for_stopped(&self) -> Process {
        until("the process at the point stands still", Duration::from_secs(60), || self.stopped())
    }

    fn hits_file(&self) -> PathBuf {
        self.folder.path().join("hits")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.hits_file().with_extension(ending)
    }
}
