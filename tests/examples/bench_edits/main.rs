//! What one edit costs, from Claude Code's call to the released result with both records durable, beside the bare loop of
//! the same appends, writes and syncs. With `PEERS=1` also what other servers take, none of which syncs.
//!
//! `scripts/bench edits` runs it on release binaries. The supervisor and the worker are the real ones; this program
//! stands in for Claude Code, so that neither its time nor ChatGPT's is in the numbers.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it prints its table, and a number that can't be taken ends it"
)]

mod floor;
#[path = "../bench/numbers.rs"]
mod numbers;
mod peers;
mod stand_in;

use std::{env, fs, path::Path, time::Duration};

use floor::Floor;
use numbers::{Sample, row};
use serde_json::{Value, json};
use tests::{Gateway, Session, key};

/// Edits of small files, in replies of as many as a reply takes.
const SMALL: usize = 320;
const REPLY: usize = 32;

/// Edits of a large file.
const LARGE: usize = 40;
const LARGE_REPLY: usize = 8;

/// Between two calls, and between two rounds of the bare loop: Claude Code itself takes longer than that.
pub(crate) const PACE: Duration = Duration::from_millis(5);

const SMALL_BYTES: usize = 4 * 1024;
const LARGE_BYTES: usize = 5_000_000;

fn main() {
    if stand_in::is_asked() {
        return stand_in::run();
    }
    println!("{:<58} {:>9} {:>9} {:>9}", "ms", "p50", "p99", "aim p50");
    let own = env::current_exe().unwrap();
    let gateway = Gateway::with(&[("CLAUDE_BIN", own.to_str().expect("a path of UTF-8"))]);
    let mut bench = Bench {
        session: Session::start_as(&gateway.client, &gateway.work, "direct_write"),
        floor: Floor::in_folder(&gateway.work, &gateway.state.join("bare-journal")),
        gateway: &gateway,
    };
    bench.small();
    bench.large();
    bench.session.stop();
    peers::compare(&gateway.work);
}

/// A text of this many bytes with one place to change.
pub(crate) fn text(bytes: usize) -> String {
    let line = "let value = other.value_of(name).unwrap_or_default(); // as before\n";
    let mut text = line.repeat(bytes / line.len());
    let middle = line.len() * (bytes / line.len() / 2);
    text.insert_str(middle, "number 0 of the edits\n");
    text
}

/// The edit that follows `number` others of the same text.
pub(crate) fn edit(number: usize) -> (String, String) {
    (format!("number {number} of"), format!("number {} of", number + 1))
}

struct Bench<'a> {
    session: Session,
    floor: Floor,
    gateway: &'a Gateway,
}

impl Bench<'_> {
    /// Files of 4 KiB: each edited for the first time, and one edited again and again.
    fn small(&mut self) {
        let content = text(SMALL_BYTES);
        let (mut bare, mut read, mut first, mut again) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let one = self.gateway.work.join("small");
        self.write(&one, &content);
        for round in 0..SMALL / REPLY {
            let files: Vec<_> =
                (0..REPLY).map(|number| self.gateway.work.join(format!("small-{round}-{number}"))).collect();
            // No two of them are equal: equal contents are kept once.
            for file in &files {
                read.extend(self.write(file, &format!("{}\n{content}", file.display())));
            }
            first.extend(self.calls(&files.iter().map(|file| edit_call(file, 0)).collect::<Vec<_>>()));
            let edits: Vec<_> = (0..REPLY).map(|number| edit_call(&one, round * REPLY + number)).collect();
            again.extend(self.calls(&edits));
            bare.extend((0..REPLY).map(|_| self.floor.replace(content.as_bytes())));
        }
        let bare = sample(bare);
        row("4 KiB: bare append, replace, append, each synced", &bare, None);
        row("4 KiB: Read (one record)", &sample(read), None);
        row("4 KiB: Edit of a file edited before (≤ 2 ×, p99 ≤ 10)", &sample(again), Some(2.0 * bare.p50()));
        row("4 KiB: a file's first Edit (≤ 2 ×, p99 ≤ 10)", &sample(first), Some(2.0 * bare.p50()));
    }

    /// A file of 5 MB.
    fn large(&mut self) {
        let content = text(LARGE_BYTES);
        let file = self.gateway.work.join("large");
        self.write(&file, &content);
        let (mut bare, mut edits, mut missed) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..LARGE / LARGE_REPLY {
            let calls: Vec<_> =
                (0..LARGE_REPLY).map(|number| edit_call(&file, round * LARGE_REPLY + number)).collect();
            edits.extend(self.calls(&calls));
            bare.extend((0..LARGE_REPLY).map(|_| self.floor.replace(content.as_bytes())));
            let absent = json!({"name": "Edit", "input": {
                "file_path": file, "old_string": "let value = other.value_of(nome).unwrap_or_defualt();", "new_string": "x",
            }});
            missed.extend(self.failing(&absent));
        }
        row("5 MB: bare append, replace, append, each synced", &sample(bare), None);
        row("5 MB: Edit", &sample(edits), Some(40.0));
        row("5 MB: an Edit whose text is not there", &sample(missed), Some(100.0));
    }

    /// Puts a file there and has the session read it.
    fn write(&mut self, file: &Path, content: &str) -> Vec<Duration> {
        fs::write(file, content).unwrap();
        self.calls(&[json!({"name": "Read", "input": {"file_path": file}})])
    }

    /// The times of calls that must succeed, all in one reply.
    fn calls(&mut self, calls: &[Value]) -> Vec<Duration> {
        self.reply(calls, false)
    }

    fn failing(&mut self, call: &Value) -> Vec<Duration> {
        self.reply(std::slice::from_ref(call), true)
    }

    fn reply(&mut self, calls: &[Value], fail: bool) -> Vec<Duration> {
        let turn = self.session.turn()["turn_id"].clone();
        let arguments = json!({"turn_id": turn, "reply_id": key(), "tool_calls": calls, "wait_seconds": 50});
        self.session.call("native_session_reply_and_wait", &arguments).unwrap();
        self.session.turn();
        let times = self.gateway.state.join("sessions").join(&self.session.id);
        let times = fs::read_to_string(times.join("claude/config").join(stand_in::TIMES)).unwrap();
        let lines: Vec<_> = times.lines().collect();
        let newest = &lines[lines.len() - calls.len()..];
        newest.iter().map(|line| taken(line, fail)).collect()
    }
}

/// Durations that were taken.
pub(crate) fn sample(mut taken: Vec<Duration>) -> Sample {
    Sample::take(taken.len(), || taken.pop().expect("as many as were counted"))
}

fn taken(line: &str, fail: bool) -> Duration {
    let mut words = line.split('\t').skip(1);
    assert_eq!(words.next(), Some(if fail { "true" } else { "false" }), "{line}");
    Duration::from_nanos(words.next().and_then(|nanos| nanos.parse().ok()).expect("a time"))
}

fn edit_call(file: &Path, number: usize) -> Value {
    let (old, new) = edit(number);
    json!({"name": "Edit", "input": {"file_path": file, "old_string": old, "new_string": new}})
}
