//! The list of sessions is the same whether the index is current, behind, damaged or gone.

use std::fs;

use protocol::{id::SessionId, session::Status};

use crate::ledger::{
    Ledger, Record, Summary,
    sample::{State, key, moments, note, session, summarise, wait},
};

/// What the list says, in short: each session, its summary, and whether it is in trouble.
type List = Vec<(SessionId, Option<Summary>, bool)>;

fn list(ledger: &Ledger) -> List {
    ledger.sessions().into_iter().map(|row| (row.session_id, row.summary, row.trouble.is_some())).collect()
}

fn must_not_read(_: &[Record]) -> Summary {
    panic!("a journal was read although the index is current")
}

/// Three sessions, described.
fn three(state: &State) -> (Vec<SessionId>, List) {
    let ledger = state.open();
    let ids: Vec<_> = ["a", "b", "c"].iter().map(|key| session(&ledger, key, 2)).collect();
    for id in &ids {
        let records: Vec<_> = ledger.load(*id).unwrap().into_iter().map(|r| r.into_inner()).collect();
        ledger.describe(*id, summarise(&records));
    }
    let said = list(&ledger);
    (ids, said)
}

#[test]
fn a_current_index_is_enough() {
    let state = State::new();
    let (ids, said) = three(&state);
    let ledger = Ledger::open(&state.path(), must_not_read).unwrap();
    assert_eq!(list(&ledger), said);
    assert_eq!(ledger.session_of_start_key(&key("b")), Some(ids[1]));
    wait(ledger.append(ids[0], vec![note(9, 1)])).unwrap();
    assert_eq!(moments(&ledger, ids[0]).unwrap(), [1, 2, 3, 9]);
}

#[test]
fn without_the_index_the_journals_say_the_same() {
    let state = State::new();
    let (ids, said) = three(&state);
    state.lose_index();
    let ledger = state.open();
    assert_eq!(list(&ledger), said);
    assert_eq!(ledger.session_of_start_key(&key("c")), Some(ids[2]));
}

#[test]
fn a_damaged_index_is_made_anew() {
    let state = State::new();
    let (_, said) = three(&state);
    for name in ["db", "conf"] {
        fs::write(state.index().join(name), vec![0x5a; 4096]).unwrap();
        assert_eq!(list(&state.open()), said, "{name} overwritten");
    }
    for entry in fs::read_dir(state.index()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("snap.") {
            fs::write(path.with_extension("9999999999999999.generating"), "half a snapsh").unwrap();
        }
    }
    fs::write(state.index().join("snap.00000000FFFFFFFF.generating"), "half a snapsh").unwrap();
    assert_eq!(
        list(&Ledger::open(&state.path(), must_not_read).unwrap()),
        said,
        "an unfinished snapshot is no damage"
    );
    let set_aside = fs::read_dir(state.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("damaged"))
        .count();
    assert!(set_aside <= 1);
}

#[test]
fn an_index_that_can_not_be_made_is_done_without() {
    let state = State::new();
    let (ids, said) = three(&state);
    state.lose_index();
    fs::write(state.index(), "not a folder").unwrap();
    let ledger = state.open();
    assert_eq!(list(&ledger), said);
    wait(ledger.append(ids[0], vec![note(9, 1)])).unwrap();
    drop(ledger);
    assert_eq!(moments(&state.open(), ids[0]).unwrap(), [1, 2, 3, 9]);
}

#[test]
fn what_the_index_missed_is_read_again() {
    let state = State::new();
    let (ids, mut said) = three(&state);
    let old = tempfile::tempdir().unwrap();
    copy(&state.index(), old.path());
    let ledger = state.open();
    wait(ledger.append(ids[1], vec![note(77, 1)])).unwrap();
    let fourth = session(&ledger, "d", 0);
    drop(ledger);
    state.lose_index();
    copy(old.path(), &state.index());
    let ledger = state.open();
    let row = said.iter_mut().find(|(id, ..)| *id == ids[1]).unwrap().1.as_mut().unwrap();
    row.records = 4;
    row.updated_at.0 = 77;
    for old in said {
        assert!(list(&ledger).contains(&old), "{old:?}");
    }
    assert_eq!(ledger.session_of_start_key(&key("d")), Some(fourth));
    assert_eq!(moments(&ledger, ids[1]).unwrap(), [1, 2, 3, 77]);
}

#[test]
fn a_session_that_nobody_described_is_summed_up_at_the_next_start() {
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 5);
    assert_eq!(ledger.session(id).unwrap().summary.unwrap().records, 1);
    drop(ledger);
    let summary = state.open().session(id).unwrap().summary.unwrap();
    assert_eq!((summary.records, summary.updated_at.0, summary.status), (6, 6, Status::Idle));
}

#[test]
fn a_summary_too_large_for_the_index_is_made_again() {
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 0);
    let mut summary = ledger.session(id).unwrap().summary.unwrap();
    summary.working_directory = "/long".repeat(2000).into();
    ledger.describe(id, summary.clone());
    assert_eq!(ledger.session(id).unwrap().summary, Some(summary));
    drop(ledger);
    assert_eq!(state.open().session(id).unwrap().summary.unwrap().working_directory.as_os_str(), "/project");
}

#[test]
fn a_creation_that_was_never_finished_leaves_nothing() {
    let state = State::new();
    drop(state.open());
    let folder = state.path().join("sessions").join(SessionId::mint().to_string());
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("journal.new"), "GWLED").unwrap();
    fs::create_dir(folder.join("skills")).unwrap();
    fs::write(folder.join("skills/text"), "kept before its record").unwrap();
    assert_eq!(state.open().sessions(), []);
    assert!(!folder.exists());
}

#[test]
fn a_removed_session_is_forgotten() {
    let state = State::new();
    let (ids, _) = three(&state);
    fs::remove_dir_all(state.journal(ids[0]).parent().unwrap()).unwrap();
    let ledger = state.open();
    assert_eq!(ledger.sessions().len(), 2);
    assert_eq!(ledger.session_of_start_key(&key("a")), None);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_journal_of_a_session_that_ended_is_closed() {
    use crate::ledger::record::Entry;
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 1);
    let journal = state.path().canonicalize().unwrap().join("sessions").join(id.to_string()).join("journal");
    let open = || {
        let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter(|file| fs::read_link(file.path()).is_ok_and(|path| path == journal)).count()
    };
    assert_eq!(open(), 1);
    let stopped = Record { at: note(9, 0).at, entry: Entry::Stopped };
    wait(ledger.append(id, vec![stopped])).unwrap();
    // Its answer comes before the thread has gone on to the next request, which this is.
    session(&ledger, "other", 1);
    assert_eq!(open(), 0);
    assert_eq!(wait(ledger.append(id, vec![note(10, 1)])).unwrap().len(), 1);
}
