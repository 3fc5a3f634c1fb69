//! A full disk costs the write that met it, and nothing else.
//!
//! The disk is made full by a limit on the size of files, in a process of its own: it works without privileges.

use std::process::Command;

use crate::ledger::{
    LedgerError,
    sample::{State, moments, note, session, wait},
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
