//! SIGKILL at any moment: every record that was acknowledged is there afterwards.
//!
//! The writer runs in a process of its own and says each record only after its acknowledgement.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use protocol::id::SessionId;

use crate::ledger::{
    Ledger,
    sample::{State, created, moments, note, summarise, wait},
};

const STATE: &str = "LEDGER_TEST_CRASH_STATE";
const ROUNDS: &str = "LEDGER_TEST_CRASH_ROUNDS";
const SESSIONS: u64 = 4;

#[test]
fn every_acknowledged_record_survives_sigkill() {
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let state = State::new();
    let mut acknowledged: BTreeMap<SessionId, u64> = BTreeMap::new();
    for round in 0..rounds {
        // From the first milliseconds of a start to far into the writing.
        let lines = usize::try_from(round * 37 % 150).unwrap();
        let spare = Duration::from_micros(round * 7919 % 5000);
        for (id, at) in write_until_killed(&state.path(), lines, spare) {
            let highest = acknowledged.entry(id).or_default();
            *highest = at.max(*highest);
        }
        let ledger = state.open();
        for (id, highest) in &acknowledged {
            let found = moments(&ledger, *id).unwrap();
            assert_eq!(
                found,
                (1..=found.len() as u64).collect::<Vec<_>>(),
                "round {round}: none twice, none missing"
            );
            assert!(
                found.len() as u64 >= *highest,
                "round {round}: {id} lost {highest}, has {}",
                found.len()
            );
        }
        assert!(ledger.sessions().iter().all(|row| row.trouble.is_none()), "round {round}");
        assert!(ledger.sessions().len() as u64 <= SESSIONS);
    }
    assert!(!acknowledged.is_empty(), "nothing was ever written");
}

/// Starts a writer and kills it a little after its `lines`-th acknowledgement; gives all that it said.
fn write_until_killed(state: &Path, lines: usize, spare: Duration) -> Vec<(SessionId, u64)> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ledger::tests::crash::writer", "--ignored", "--nocapture"])
        .env(STATE, state)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut found = Vec::new();
    let mut take = |line: String| {
        // The test harness says things too.
        let Some((id, at)) = line.strip_prefix("recorded ").and_then(|said| said.split_once(' ')) else {
            return;
        };
        if let (Ok(id), Ok(at)) = (id.parse(), at.parse()) {
            found.push((id, at));
        }
    };
    if lines > 0 {
        said.by_ref().take(lines).for_each(&mut take);
    }
    // Not to wait for something, but to kill at a moment that nobody chose.
    std::thread::sleep(spare);
    writer.kill().unwrap();
    writer.wait().unwrap();
    said.for_each(take);
    found
}

#[test]
#[ignore = "runs in a process of its own, started and killed by the test above"]
fn writer() {
    let Some(state) = std::env::var_os(STATE) else { return };
    let ledger = Ledger::open(Path::new(&state), summarise).unwrap();
    // A line is written whole or not at all, and without the harness's own buffer.
    let say = |id: SessionId, at: u64| {
        let _ = std::io::stdout().write_all(format!("\nrecorded {id} {at}\n").as_bytes());
    };
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            let ledger = &ledger;
            scope.spawn(move || {
                let key = format!("k{number}").parse().unwrap();
                let (id, next) = match ledger.session_of_start_key(&key) {
                    Some(id) => (id, ledger.load(id).unwrap().len() as u64 + 1),
                    None => {
                        let id = SessionId::mint();
                        wait(ledger.create(id, vec![created(id, key.as_str(), 1)])).unwrap();
                        say(id, 1);
                        (id, 2)
                    }
                };
                for at in next..next + 5000 {
                    wait(ledger.append(id, vec![note(at, usize::try_from(at * 31 % 3000).unwrap())]))
                        .unwrap();
                    say(id, at);
                }
            });
        }
    });
}
