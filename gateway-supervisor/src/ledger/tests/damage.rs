//! Damaged journals name themselves and leave the other sessions working; newer ones are not touched.

use std::fs;

use protocol::id::SessionId;

use crate::ledger::{
    Damage, LedgerError, Trouble,
    journal::reader::Position,
    sample::{State, flip, key, moments, note, session, wait},
};

/// Where the records of a session's journal begin and end.
fn bounds(state: &State, id: SessionId) -> Vec<usize> {
    let bytes = fs::read(state.journal(id)).unwrap();
    let mut bounds = vec![64];
    while let Some(head) = bytes.get(bounds[bounds.len() - 1]..).and_then(|rest| rest.first_chunk::<4>()) {
        bounds.push(bounds[bounds.len() - 1] + 52 + u32::from_le_bytes(*head) as usize);
    }
    bounds
}

fn damage_of(state: &State, bad: SessionId, good: SessionId) -> Damage {
    let ledger = state.open();
    assert_eq!(moments(&ledger, good).unwrap(), [1, 2, 3], "the other session goes on");
    wait(ledger.append(good, vec![])).unwrap();
    let Err(LedgerError::Damaged(damage)) = ledger.load(bad) else { panic!("not noticed") };
    let refused = wait(ledger.append(bad, vec![note(9, 1)]));
    assert!(matches!(refused, Err(LedgerError::Damaged(_))), "{refused:?}");
    let row = ledger.session(bad).unwrap();
    assert!(row.trouble.is_some());
    assert_eq!(row.summary.unwrap().label.unwrap(), "label of bad", "what was known is still shown");
    assert_eq!(ledger.session_of_start_key(&key("bad")), Some(bad), "its key is not free");
    damage
}

#[test]
fn a_damaged_record_is_named_with_and_without_the_index() {
    for record in 1..4 {
        let state = State::new();
        let ledger = state.open();
        let (bad, good) = (session(&ledger, "bad", 3), session(&ledger, "good", 2));
        drop(ledger);
        let begins = bounds(&state, bad)[record - 1];
        flip(&state.journal(bad), begins + 60);
        let damage = damage_of(&state, bad, good);
        assert_eq!((damage.record, damage.byte), (record as u64, begins as u64));
        if record > 1 {
            state.lose_index();
            let again = damage_of(&state, bad, good);
            assert_eq!((again.record, again.byte), (record as u64, begins as u64));
        }
    }
}

#[test]
fn a_record_that_was_durable_is_never_cut_as_a_torn_tail() {
    let cases: [fn(&mut Vec<u8>); 3] = [
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        },
        |bytes| bytes.truncate(64),
    ];
    for spoil in cases {
        let state = State::new();
        let ledger = state.open();
        let (bad, good) = (session(&ledger, "bad", 2), session(&ledger, "good", 2));
        drop(ledger);
        // As many starts as it takes: the damage stays noticed, and the file stays as it is.
        let mut bytes = fs::read(state.journal(bad)).unwrap();
        spoil(&mut bytes);
        fs::write(state.journal(bad), &bytes).unwrap();
        for _ in 0..2 {
            damage_of(&state, bad, good);
            assert_eq!(fs::read(state.journal(bad)).unwrap(), bytes);
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_the_session_goes_on() {
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 2);
    drop(ledger);
    let whole = fs::read(state.journal(id)).unwrap();
    let mut torn = whole.clone();
    torn.extend_from_slice(&whole[64..100]);
    fs::write(state.journal(id), torn).unwrap();
    let ledger = state.open();
    assert_eq!(moments(&ledger, id).unwrap(), [1, 2, 3]);
    assert_eq!(fs::read(state.journal(id)).unwrap(), whole);
    wait(ledger.append(id, vec![note(4, 1)])).unwrap();
    assert_eq!(moments(&ledger, id).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn damage_that_comes_while_the_gateway_runs_is_noticed_by_the_next_reader() {
    let state = State::new();
    let ledger = state.open();
    let id = session(&ledger, "k", 2);
    flip(&state.journal(id), 64 + 60);
    assert!(matches!(ledger.verify(id), Err(LedgerError::Damaged(damage)) if damage.record == 1));
    assert!(matches!(wait(ledger.append(id, vec![note(9, 1)])), Err(LedgerError::Damaged(_))));
}

#[test]
fn a_journal_or_folder_of_another_session_is_damage() {
    let state = State::new();
    let ledger = state.open();
    let (bad, good) = (session(&ledger, "bad", 2), session(&ledger, "good", 2));
    drop(ledger);
    fs::copy(state.journal(good), state.journal(bad)).unwrap();
    assert_eq!(damage_of(&state, bad, good).record, 0);
    fs::remove_file(state.journal(bad)).unwrap();
    assert_eq!(damage_of(&state, bad, good).record, 0);
}

#[test]
fn a_journal_of_a_newer_release_is_not_touched() {
    let state = State::new();
    let ledger = state.open();
    let (id, good) = (session(&ledger, "k", 1), session(&ledger, "good", 2));
    let records: Vec<_> = ledger.load(id).unwrap();
    drop(ledger);
    let mut bytes = fs::read(state.journal(id)).unwrap();
    let (mut position, mut ignored) = (Position::first(id), Vec::new());
    for record in &records {
        position.write(&serde_json::to_vec(record.get()).unwrap(), &mut ignored);
    }
    position.write(br#"{"at":3,"entry":"teleported"}"#, &mut bytes);
    bytes.extend_from_slice(b"and a torn tail");
    fs::write(state.journal(id), &bytes).unwrap();
    for _ in 0..2 {
        let ledger = state.open();
        assert!(matches!(ledger.load(id), Err(LedgerError::NewerRelease(newer)) if newer.record == 3));
        assert!(matches!(wait(ledger.append(id, vec![note(9, 1)])), Err(LedgerError::NewerRelease(_))));
        let row = ledger.session(id).unwrap();
        assert!(matches!(row.trouble, Some(Trouble::NewerRelease(_))));
        assert_eq!(row.summary.unwrap().label.unwrap(), "label of k");
        assert_eq!(moments(&ledger, good).unwrap(), [1, 2, 3]);
        drop(ledger);
        assert_eq!(fs::read(state.journal(id)).unwrap(), bytes);
        if state.index().exists() {
            state.lose_index();
        }
    }
}
