//! (X6, X7) Two sessions write in one directory at the same time: what one of them has not seen it does not overwrite.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use serde_json::json;
use tests::{Gateway, Session, until};

/// Replies of each session; both send each at the same moment.
const ROUNDS: usize = 25;

/// Changes in one reply.
const AT_ONCE: usize = 5;

/// What one session changed, and how often it was told that it had not seen the file as it is.
fn change(
    session: &mut Session,
    (name, file): (&str, &Path),
    (own, other): (&AtomicUsize, &AtomicUsize),
) -> (BTreeSet<String>, usize) {
    let (mut done, mut stale) = (BTreeSet::new(), 0);
    for round in 0..ROUNDS {
        let lines: Vec<String> =
            (0..AT_ONCE).map(|number| format!("{name} {}", round * AT_ONCE + number)).collect();
        let mut calls = vec![("Read", json!({"file_path": file}))];
        calls.extend(lines.iter().map(|line| {
            let new = format!("{line}\nend");
            ("Edit", json!({"file_path": file, "old_string": "end", "new_string": new}))
        }));
        session.turn();
        own.store(round + 1, Ordering::SeqCst);
        // Where the other one failed there is no use in going on.
        until("the other session is as far", Duration::from_secs(60), || {
            (other.load(Ordering::SeqCst) > round).then_some(())
        });
        // After one that was refused the next ones are refused as well: nothing was read since.
        for (line, result) in lines.into_iter().zip(session.act(&calls).iter().skip(1)) {
            if result["is_error"] == false {
                done.insert(line);
            } else {
                let text = result["content"].as_str().unwrap();
                assert!(text.starts_with("stale_read"), "{text}");
                stale += 1;
            }
        }
    }
    (done, stale)
}

#[test]
fn of_many_changes_at_once_none_is_lost_and_none_is_made_twice() {
    let gateway = Gateway::start();
    let file = gateway.work.join("shared.txt");
    fs::write(&file, "end\n").unwrap();
    let mut sessions =
        ["first", "second"].map(|_| Session::start_as(&gateway.client, &gateway.work, "direct_write"));
    let [first, second] = &mut sessions;
    let rounds = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let (mut done, mut stale) = (BTreeSet::new(), 0);
    thread::scope(|scope| {
        let one = scope.spawn(|| change(first, ("first", &file), (&rounds[0], &rounds[1])));
        let two = scope.spawn(|| change(second, ("second", &file), (&rounds[1], &rounds[0])));
        for (lines, refused) in [one, two].map(|session| session.join().unwrap()) {
            done.extend(lines);
            stale += refused;
        }
    });
    assert!(stale > 0, "the sessions never met: nothing was shown");
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| *line != "end").collect();
    assert_eq!(lines.len(), done.len(), "{text}");
    assert_eq!(lines.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), done);
    assert!(text.ends_with("end\n"));
}
