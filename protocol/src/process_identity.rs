//! Which process a pid means: a pid alone is used again after a while.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::{io, sync::OnceLock};

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;

/// One process of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its pid.
    pub pid: u32,
    /// When it started: clock ticks since boot on Linux, microseconds since 1970 on macOS. Only equality means something.
    pub started: u64,
    /// The boot it belongs to.
    pub boot: String,
}

impl ProcessIdentity {
    /// The process that has `pid` now.
    ///
    /// # Errors
    /// Where there is none, or the system does not tell.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, started: system::started(pid)?, boot: boot()? })
    }

    /// This process.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Whether this very process still runs. A zombie counts as gone.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
    }
}

/// The id of this boot.
///
/// # Errors
/// Where the system does not tell.
pub fn boot() -> io::Result<String> {
    // A process does not outlive its boot.
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(known) = BOOT.get() {
        return Ok(known.clone());
    }
    let boot = system::boot()?;
    Ok(BOOT.get_or_init(|| boot).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_recognised_until_it_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        assert!(identity.is_alive());
        assert!(!ProcessIdentity { started: identity.started + 1, ..identity.clone() }.is_alive());
        assert!(!ProcessIdentity { boot: "other".into(), ..identity.clone() }.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }
}
