//! Measures the ledger beside what it can't beat: appending to one file and syncing it, record by record.
//!
//! `cargo run --release -p gateway-supervisor --example bench_ledger [FOLDER]` prints one JSON object. The folder should be on
//! the disk that is to be measured; the system's temporary folder is taken where none is named.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a program for people who measure; it fails by panicking"
)]

use std::{
    fs::OpenOptions,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use gateway_supervisor::ledger::{
    Ledger, Record, Summary,
    record::{Created, Entry},
};
use protocol::{id::SessionId, session::Status};
use serde_json::json;

const SESSIONS: usize = 16;
const RECORD_BYTES: usize = 256;
const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 5;
const STORED: usize = 1000;

/// Makes this program open a ledger, say what memory that took, and end.
const RESIDENT: &str = "--resident";

fn main() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == RESIDENT) {
        let state = std::env::args_os().nth(2).unwrap();
        let before = resident_kib();
        let ledger = Ledger::open(Path::new(&state), summarise).unwrap();
        println!("{}", json!([before, resident_kib()]));
        drop(ledger);
        return;
    }
    let base = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let scratch = tempfile::tempdir_in(base).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (mut bare, mut grouped, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let ledger = Ledger::open(&scratch.path().join("group"), summarise).unwrap();
    // Taken in turns, so that what else the machine does meets all of them.
    for round in 0..ROUNDS {
        bare.push(bare_loop(scratch.path()));
        grouped.push(runtime.block_on(append_for(&ledger, round, SESSIONS)));
        alone.push(runtime.block_on(append_for(&ledger, round, 1)));
    }
    ledger.close();
    let (bare, grouped, alone) = (median(bare), median(grouped), median(alone));
    let opened = open_many(&scratch.path().join("many"), &runtime);
    let report = json!({
        "records_per_second": {
            "bare_append_and_sync": bare, "ledger_16_sessions": grouped, "ledger_1_session": alone,
        },
        "ratio_16_sessions": (grouped / bare * 100.0).round() / 100.0,
        "ratio_1_session": (alone / bare * 100.0).round() / 100.0,
        "open_ms": opened,
    });
    println!("{report:#}");
}

/// Appends and syncs records of the same size, one after another.
fn bare_loop(folder: &Path) -> f64 {
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join("bare")).unwrap();
    let record = vec![b'x'; RECORD_BYTES + 150];
    let (begin, mut count) = (Instant::now(), 0_u32);
    while begin.elapsed() < ROUND {
        file.write_all(&record).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}

/// Appends from several sessions at once, each waiting for its acknowledgement before its next record.
async fn append_for(ledger: &Ledger, round: usize, sessions: usize) -> f64 {
    let mut ids = Vec::new();
    for number in 0..sessions {
        let id = SessionId::mint();
        ledger.create(id, vec![created(id, &format!("{round}-{sessions}-{number}"))]).await.unwrap();
        ids.push(id);
    }
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for id in ids {
        let ledger = ledger.clone();
        tasks.push(tokio::spawn(async move {
            let mut count = 0_u32;
            while begin.elapsed() < ROUND {
                ledger.append(id, vec![note()]).await.unwrap();
                count += 1;
            }
            count
        }));
    }
    let mut count = 0;
    for task in tasks {
        count += task.await.unwrap();
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}

/// How long it takes to open a ledger of many sessions, with its index, behind it, and without it.
fn open_many(state: &Path, runtime: &tokio::runtime::Runtime) -> serde_json::Value {
    let ledger = timed(&mut Vec::new(), || Ledger::open(state, summarise).unwrap());
    runtime.block_on(async {
        for number in 0..STORED {
            let id = SessionId::mint();
            let mut records = vec![created(id, &format!("key {number}"))];
            records.extend((0..40).map(|_| note()));
            ledger.create(id, records).await.unwrap();
        }
    });
    drop(ledger);
    let (mut current, mut lost) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        drop(timed(&mut current, || Ledger::open(state, summarise).unwrap()));
    }
    let resident = std::process::Command::new(std::env::current_exe().unwrap())
        .arg(RESIDENT)
        .arg(state)
        .output()
        .unwrap();
    let resident: serde_json::Value = serde_json::from_slice(&resident.stdout).unwrap();
    let ledger = Ledger::open(state, summarise).unwrap();
    let list = {
        let begin = Instant::now();
        assert_eq!(ledger.sessions().len(), STORED);
        begin.elapsed().as_secs_f64() * 1000.0
    };
    drop(ledger);
    for _ in 0..ROUNDS {
        std::fs::remove_dir_all(state.join("index")).unwrap();
        drop(timed(&mut lost, || Ledger::open(state, summarise).unwrap()));
    }
    let mut empty = Vec::new();
    for number in 0..ROUNDS {
        drop(timed(&mut empty, || Ledger::open(&state.join(format!("empty{number}")), summarise).unwrap()));
    }
    json!({
        "empty": median(empty), "1000_sessions": median(current), "1000_sessions_without_index": median(lost),
        "list_1000": list, "resident_kib_before_and_after": resident,
    })
}

fn timed<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let made = work();
    times.push(begin.elapsed().as_secs_f64() * 1000.0);
    made
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2] * 100.0).round() / 100.0
}

/// Resident memory of this process; nothing where the system does not tell in this way.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn created(id: SessionId, key: &str) -> Record {
    serde_json::from_value(json!({
        "at": 1, "entry": "created", "session_id": id,
        "claude_session_id": "00000000-0000-4000-8000-000000000000",
        "idempotency_key": key, "input": protocol::digest::Digest::of(key.as_bytes()),
        "workspace": {
            "kind": "read_only", "root": "/home/somebody/project", "source": "/home/somebody/project",
            "identity": {"device": 1, "inode": 2, "filesystem": null, "born_at": null, "boot": "boot"}, "notes": [],
        },
        "profile": "read_only", "subagent_policy": "none", "label": "a session", "skills": [],
        "lease": {"lease_id": "lease_00000000000000000000000000000000", "expires_at": 2},
        "lease_millis": 1, "conversation": null, "release": "0.1.0",
    }))
    .unwrap()
}

fn note() -> Record {
    serde_json::from_value(json!({
        "at": 2, "entry": "worker_gone", "launch": 1, "detail": "x".repeat(RECORD_BYTES),
    }))
    .unwrap()
}

fn summarise(records: &[Record]) -> Summary {
    let Entry::Created(created) = &records[0].entry else { panic!("a journal without its creation") };
    let Created { label, workspace, idempotency_key, input, .. } = &**created;
    Summary {
        records: records.len() as u64,
        status: Status::Idle,
        label: label.clone(),
        created_at: records[0].at,
        updated_at: records[records.len() - 1].at,
        working_directory: workspace.root.clone(),
        live: false,
        idempotency_key: idempotency_key.clone(),
        input: *input,
        terminal: false,
    }
}
