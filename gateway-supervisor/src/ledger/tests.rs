//! The ledger as its callers see it: what was acknowledged is there, whatever happened in between.

mod crash;
mod damage;
mod full_disk;
mod lists;

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    sync::atomic::{AtomicBool, Ordering},
};

use protocol::id::SessionId;

use super::{
    Ledger, LedgerError,
    sample::{State, created, key, moments, note, session, summarise, wait},
};

#[test]
fn what_was_recorded_is_there_after_a_restart() {
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 3);
    let numbers: Vec<_> = ledger.load(id).unwrap().iter().map(super::Durable::number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    drop(ledger);
    let ledger = state.open();
    assert_eq!(moments(&ledger, id).unwrap(), [1, 2, 3, 4]);
    assert_eq!(ledger.verify(id).unwrap(), 4);
    let added = wait(ledger.append(id, vec![note(5, 1), note(6, 1)])).unwrap();
    assert_eq!(added.iter().map(super::Durable::number).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(moments(&ledger, id).unwrap(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_second_supervisor_is_refused_until_the_first_is_gone() {
    let state = State::new();
    let first = state.open();
    let second = Ledger::open(&state.path(), summarise);
    assert!(matches!(second, Err(LedgerError::AlreadyRunning { .. })), "{second:?}");
    let other_handle = first.clone();
    first.close();
    assert!(matches!(
        wait(other_handle.append(SessionId::mint(), vec![note(1, 1)])),
        Err(LedgerError::Closed)
    ));
    state.open();
}

#[test]
fn everything_is_this_users_alone() {
    let state = State::new();
    fs::create_dir(state.path()).unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let ledger = state.open();
    let id = session(&ledger, "k", 1);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(state.path()), 0o700);
    assert_eq!(mode(state.path().join("sessions")), 0o700);
    assert_eq!(mode(state.index()), 0o700);
    assert_eq!(mode(state.journal(id).parent().unwrap().to_owned()), 0o700);
    assert_eq!(mode(state.journal(id)), 0o600);
    assert_eq!(mode(state.path().join("supervisor.lock")), 0o600);
}

#[test]
fn a_state_directory_that_is_none_is_refused() {
    let state = State::new();
    fs::write(state.path(), "a file").unwrap();
    let opened = Ledger::open(&state.path(), summarise);
    assert!(matches!(opened, Err(LedgerError::Refused { .. })), "{opened:?}");
    assert_eq!(fs::read_to_string(state.path()).unwrap(), "a file");
}

#[test]
fn a_session_is_created_once() {
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 0);
    let again = wait(ledger.create(id, vec![created(id, "other", 1)]));
    assert!(matches!(again, Err(LedgerError::Exists(_))), "{again:?}");
    let other = SessionId::mint();
    let same_key = wait(ledger.create(other, vec![created(other, "k", 1)]));
    assert!(matches!(same_key, Err(LedgerError::StartKeyTaken(owner)) if owner == id), "{same_key:?}");
    for wrong in [vec![], vec![note(1, 1)], vec![created(SessionId::mint(), "n", 1)]] {
        let made = wait(ledger.create(other, wrong));
        assert!(matches!(made, Err(LedgerError::NotACreation(_))), "{made:?}");
    }
    assert!(matches!(wait(ledger.append(other, vec![note(1, 1)])), Err(LedgerError::NoSession(_))));
    assert_eq!(ledger.sessions().len(), 1);
    assert_eq!(ledger.session_of_start_key(&key("k")), Some(id));
    assert_eq!(ledger.session_of_start_key(&key("other")), None);
    assert!(!state.journal(other).parent().unwrap().exists());
}

#[test]
fn a_record_is_kept_even_if_nobody_waits_for_it() {
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 0);
    wait(async {
        let mut append = Box::pin(ledger.append(id, vec![note(2, 1)]));
        // Polled once, so that it is on its way, and then dropped.
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(append.as_mut().poll(context)));
        let _ = polled.await;
        drop(append);
        ledger.append(id, vec![note(3, 1)]).await.unwrap();
    });
    assert_eq!(moments(&ledger, id).unwrap(), [1, 2, 3]);
}

#[test]
fn many_sessions_write_at_the_same_time() {
    let state = State::new();
    let ledger = state.open();
    let ids: Vec<_> = (0..16).map(|n| session(&ledger, &format!("k{n}"), 0)).collect();
    std::thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| {
                wait(async {
                    for at in 2..40 {
                        ledger.append(*id, vec![note(at, 100)]).await.unwrap();
                    }
                });
            });
        }
    });
    drop(ledger);
    let ledger = state.open();
    for id in ids {
        assert_eq!(moments(&ledger, id).unwrap(), (1..40).collect::<Vec<_>>());
    }
}

#[test]
fn a_record_that_is_too_large_is_refused_and_nothing_of_it_is_kept() {
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 0);
    let refused = wait(ledger.append(id, vec![note(2, 1), note(3, 9 << 20)]));
    assert!(matches!(refused, Err(LedgerError::TooLarge { .. })), "{refused:?}");
    wait(ledger.append(id, vec![note(4, 7 << 20)])).unwrap();
    assert_eq!(moments(&ledger, id).unwrap(), [1, 4]);
}

#[test]
fn a_failed_sync_closes_one_session_and_no_other() {
    static FAIL: AtomicBool = AtomicBool::new(false);
    let state = State::new();
    let ledger = Ledger::open_with(&state.path(), summarise, |file| {
        if FAIL.load(Ordering::SeqCst) { Err(io::Error::other("no disk")) } else { file.sync_data() }
    })
    .unwrap();
    let (bad, good) = (session(&ledger, "bad", 1), session(&ledger, "good", 1));
    FAIL.store(true, Ordering::SeqCst);
    let failed = wait(ledger.append(bad, vec![note(3, 1)]));
    assert!(matches!(failed, Err(LedgerError::Poisoned { .. })), "{failed:?}");
    assert_eq!(failed.unwrap_err().code().text(), "ledger_unavailable");
    FAIL.store(false, Ordering::SeqCst);
    let again = wait(ledger.append(bad, vec![note(4, 1)]));
    assert!(
        matches!(again, Err(LedgerError::Poisoned { .. })),
        "a failed sync is not tried again: {again:?}"
    );
    wait(ledger.append(good, vec![note(3, 1)])).unwrap();
    assert_eq!(moments(&ledger, good).unwrap(), [1, 2, 3]);
    assert_eq!(moments(&ledger, bad).unwrap(), [1, 2], "what was acknowledged can still be read");
    assert!(ledger.session(bad).unwrap().trouble.is_some());
    drop(ledger);
    let ledger = state.open();
    assert_eq!(moments(&ledger, bad).unwrap()[..2], [1, 2]);
    assert!(ledger.session(bad).unwrap().trouble.is_none());
    wait(ledger.append(bad, vec![note(9, 1)])).unwrap();
}
