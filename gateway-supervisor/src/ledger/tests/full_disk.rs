//! A full disk costs the write that met it, and nothing else.
//!
//! The disk is made full by a limit on the size of files, in a process of its own: it works without privileges.

use std::{fs::File, io::Write, path::PathBuf, process::Command};

use crate::ledger::{
    Ledger, LedgerError,
    sample::{State, moments, note, session, summarise, wait},
};

const INSIDE: &str = "LEDGER_TEST_FULL_DISK";

#[test]
fn a_full_disk_costs_only_the_write_that_met_it() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ledger::tests::full_disk::inside_the_limit", "--ignored", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "runs in a process of its own, started by the test above"]
fn inside_the_limit() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let state = State::new();
    let ledger = state.open();
    let (full, other) = (session(&ledger, "full", 1), session(&ledger, "other", 1));
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_FSIZE, 1 << 20, 1 << 20).unwrap();
    // Without this the limit kills instead of failing the write.
    let ignored = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored).unwrap();
    wait(ledger.append(full, vec![note(3, 600_000)])).unwrap();
    let refused = wait(ledger.append(full, vec![note(4, 600_000)])).unwrap_err();
    assert!(matches!(refused, LedgerError::Io { .. }) && refused.retryable(), "{refused:?}");
    assert_eq!(moments(&ledger, full).unwrap(), [1, 2, 3]);
    wait(ledger.append(other, vec![note(3, 10)])).unwrap();
    wait(ledger.append(full, vec![note(5, 10)])).unwrap();
    assert_eq!(moments(&ledger, full).unwrap(), [1, 2, 3, 5]);
    drop(ledger);
    let ledger = state.open();
    assert_eq!(moments(&ledger, full).unwrap(), [1, 2, 3, 5]);
    assert_eq!(moments(&ledger, other).unwrap(), [1, 2, 3]);
}

#[test]
fn a_disk_without_any_room_keeps_nobody_from_reading() {
    // Only root can make a small disk; the limit above shows the rest to everybody.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.0.path().join("state");
    let ledger = Ledger::open(&path, summarise).unwrap();
    let id = session(&ledger, "k", 3);
    drop(ledger);
    let filled = disk.fill();
    let ledger = Ledger::open(&path, summarise).unwrap();
    assert_eq!(moments(&ledger, id).unwrap(), [1, 2, 3, 4]);
    let refused = wait(ledger.append(id, vec![note(5, 100_000)])).unwrap_err();
    assert!(matches!(refused, LedgerError::Io { .. }), "{refused:?}");
    std::fs::remove_file(filled).unwrap();
    wait(ledger.append(id, vec![note(6, 100_000)])).unwrap();
    drop(ledger);
    let ledger = Ledger::open(&path, summarise).unwrap();
    assert_eq!(moments(&ledger, id).unwrap(), [1, 2, 3, 4, 6]);
    let set_aside = std::fs::read_dir(&path).unwrap().flatten();
    let set_aside = set_aside.filter(|entry| entry.file_name().to_string_lossy().contains("damaged")).count();
    assert_eq!(set_aside, 0, "a full disk is no damage");
}

/// A file system of its own with 12 MiB.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where the system does not let even root mount one.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=12m", "tmpfs"])
            .arg(folder.path())
            .status()
            .is_ok_and(|status| status.success());
        mounted.then_some(Self(folder))
    }

    fn fill(&self) -> PathBuf {
        let path = self.0.path().join("filler");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}
