//! The format itself: its bytes, and every way in which a few bytes of it can be wrong.

use std::io::Cursor;

use proptest::prelude::{any, proptest};
use protocol::{id::SessionId, timestamp::Timestamp};

use super::{
    format::{HEADER_BYTES, header},
    reader::{Position, Reader, Stop},
};
use crate::ledger::record::{Entry, Record};

/// Made by another program from the description in [`super`].
const GOLDEN: &str = "47574c454447455201000000000102030405060708090a0b0c0d0e0f0000000000000000000000000000000000000000\
    0000000000000000000000002924088a2c000000a58a95d9010000000100000000000000a86086d7c2cd3dbc6b8cb29c\
    d596a7fc64963dc8831e6f4c43c5e785676960827b226174223a313739303030303030303132332c22656e747279223a\
    226c656173655f65787069726564227d47000000158e13f801000000020000000000000010f340e1309146a9916a566d\
    911141a5551496dee5baafe5d39974b5c2afd4c67b226174223a313739303030303030303132342c22656e747279223a\
    226c656173655f72656e65776564222c22657870697265735f6174223a313739303030303036303030307d2600000077\
    33476e01000000030000000000000044e1564cf4b44e1b60e02a158605bce45c5fb194150f473abd0de3f4af4b618e7b\
    226174223a313739303030303030303132352c22656e747279223a2273746f70706564227d";

fn session() -> SessionId {
    SessionId::from_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
}

fn records() -> [Record; 3] {
    let at = |millis: u64| Timestamp(1_790_000_000_000 + millis);
    [
        Record { at: at(123), entry: Entry::LeaseExpired },
        Record { at: at(124), entry: Entry::LeaseRenewed { expires_at: at(60_000) } },
        Record { at: at(125), entry: Entry::Stopped },
    ]
}

/// A small journal, and where each of its records ends.
fn journal() -> (Vec<u8>, Vec<u64>) {
    let mut bytes = header(session()).to_vec();
    let mut at = Position::first(session());
    let mut ends = vec![at.length];
    for record in records() {
        at.write(&serde_json::to_vec(&record).unwrap(), &mut bytes);
        ends.push(at.length);
    }
    (bytes, ends)
}

/// All that can be read of a journal, and why reading ended; none at its end.
fn read(bytes: &[u8]) -> (Vec<Record>, Option<Stop>) {
    let mut found = Vec::new();
    let mut reader = match Reader::open(Cursor::new(bytes), session(), bytes.len() as u64) {
        Ok(reader) => reader,
        Err(stop) => return (found, Some(stop)),
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => found.push(record),
            Ok(None) => return (found, None),
            Err(stop) => return (found, Some(stop)),
        }
    }
}

#[test]
fn golden_bytes() {
    let (bytes, _) = journal();
    assert_eq!(protocol::digest::hex(&bytes), GOLDEN);
    let (found, stop) = read(&bytes);
    assert!(stop.is_none(), "{stop:?}");
    assert_eq!(found, records());
}

#[test]
fn a_journal_cut_anywhere_keeps_its_whole_records() {
    let (bytes, ends) = journal();
    for length in 0..bytes.len() {
        let (found, stop) = read(&bytes[..length]);
        if length < HEADER_BYTES {
            assert!(matches!(&stop, Some(Stop::Damaged(damage)) if damage.record == 0), "{length}: {stop:?}");
            continue;
        }
        let whole = ends.iter().filter(|end| **end <= length as u64).count() - 1;
        assert_eq!(found, records()[..whole], "cut at {length}");
        let between_records = ends.contains(&(length as u64));
        assert_eq!(stop.is_none(), between_records, "cut at {length}: {stop:?}");
        assert!(matches!(stop, None | Some(Stop::Torn)), "cut at {length}: {stop:?}");
    }
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let (bytes, ends) = journal();
    for bit in 0..bytes.len() * 8 {
        let (byte, mut flipped) = (bit / 8, bytes.clone());
        flipped[byte] ^= 1 << (bit % 8);
        let (found, stop) = read(&flipped);
        let hit = ends.iter().filter(|end| **end <= byte as u64).count();
        assert_eq!(found, records()[..hit.saturating_sub(1)], "bit {bit}");
        match stop {
            Some(Stop::Damaged(damage)) => {
                assert_eq!(damage.record, hit as u64, "bit {bit}");
                assert_eq!(damage.byte, hit.checked_sub(1).map_or(0, |before| ends[before]), "bit {bit}");
            }
            // By itself the journal can't tell a damaged last record from one that was not finished; the index can.
            Some(Stop::Torn) => assert_eq!(hit, 3, "bit {bit}"),
            other @ (None | Some(Stop::Newer(_) | Stop::Io(_))) => panic!("bit {bit}: {other:?}"),
        }
    }
}

#[test]
fn zeros_at_the_end_are_a_torn_tail() {
    let (bytes, _) = journal();
    for zeros in [1, 51, 52, 53, 5000] {
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + zeros, 0);
        let (found, stop) = read(&longer);
        assert_eq!(found, records());
        assert!(matches!(stop, Some(Stop::Torn)), "{zeros}: {stop:?}");
    }
}

#[test]
fn a_record_out_of_place_is_named() {
    let (bytes, ends) = journal();
    let end = |at: usize| usize::try_from(ends[at]).unwrap();
    let (first, second, third) = (&bytes[end(0)..end(1)], &bytes[end(1)..end(2)], &bytes[end(2)..]);
    let head = &bytes[..end(0)];
    for (order, expected) in [
        ([first, third, second], 2),
        ([second, first, third], 1),
        ([first, second, second], 3),
        ([first, &[], third], 2),
    ] {
        let (_, stop) = read(&[head, order[0], order[1], order[2]].concat());
        assert!(matches!(&stop, Some(Stop::Damaged(damage)) if damage.record == expected), "{stop:?}");
    }
}

#[test]
fn what_a_newer_release_wrote_is_told_from_damage() {
    let unknown = br#"{"at":1,"entry":"teleported","to":"the moon"}"#;
    let (mut bytes, _) = journal();
    let mut at = Position::first(session());
    let mut ignored = Vec::new();
    for record in records() {
        at.write(&serde_json::to_vec(&record).unwrap(), &mut ignored);
    }
    at.write(unknown, &mut bytes);
    let (found, stop) = read(&bytes);
    assert_eq!(found, records());
    assert!(matches!(&stop, Some(Stop::Newer(newer)) if newer.record == 4), "{stop:?}");

    let mut newer_header = header(session());
    newer_header[8] = 2;
    let crc = crc32fast::hash(&newer_header[..60]);
    newer_header[60..].copy_from_slice(&crc.to_le_bytes());
    let (_, stop) = read(&newer_header);
    assert!(matches!(&stop, Some(Stop::Newer(newer)) if newer.record == 0), "{stop:?}");
}

proptest! {
    #[test]
    fn random_bytes_are_never_taken_for_records(tail: Vec<u8>, start in any::<bool>()) {
        let mut bytes = if start { header(session()).to_vec() } else { Vec::new() };
        bytes.extend_from_slice(&tail);
        let (found, _) = read(&bytes);
        assert!(found.is_empty());
    }

    #[test]
    fn texts_come_back_as_they_were(at: u64, text: String, more: Option<String>) {
        let records = [
            Record { at: Timestamp(at), entry: Entry::WorkerGone { launch: 1, detail: text } },
            Record { at: Timestamp(at), entry: Entry::StopRequested { request_id: None, input: None, reason: more } },
        ];
        let mut bytes = header(session()).to_vec();
        let mut position = Position::first(session());
        for record in &records {
            position.write(&serde_json::to_vec(record).unwrap(), &mut bytes);
        }
        let (found, stop) = read(&bytes);
        assert!(stop.is_none());
        assert_eq!(found, records);
    }
}
