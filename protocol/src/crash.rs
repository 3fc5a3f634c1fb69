//! The crash points of test builds: a process dies by SIGKILL at the k-th hit of a named point.
//!
//! `CLAUDE_TOOLS_CRASH_POINT=name:k` names the hit; `CLAUDE_TOOLS_CRASH_COUNT=file` counts every hit of every point there,
//! a name a line, whichever process has it. With both, hits are counted in the file, so that a process that takes a killed
//! one's place does not die again; with the first alone, in the process.
//!
//! Invariant: none of it is in a build without the feature `crash-points`.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    sync::{Mutex, PoisonError},
};

use nix::sys::signal::{Signal, raise};

/// The variables that the points look at.
pub const VARIABLES: [&str; 2] = ["CLAUDE_TOOLS_CRASH_POINT", "CLAUDE_TOOLS_CRASH_COUNT"];

static HITS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Dies here where the environment says so.
#[expect(clippy::disallowed_methods, reason = "test builds alone are told by their environment where to die")]
pub fn point(name: &str) {
    let [asked, file] = VARIABLES.map(|variable| std::env::var(variable).ok());
    let hits = match &file {
        Some(file) => in_file(file, name),
        None => in_process(name),
    };
    let asked = asked.as_deref().and_then(|asked| asked.rsplit_once(':'));
    if asked.is_some_and(|(point, hit)| point == name && hit.parse() == Ok(hits)) {
        // Nothing is left that could see a failure of this.
        let _ = raise(Signal::SIGKILL);
    }
}

fn in_process(name: &str) -> usize {
    let mut hits = HITS.lock().unwrap_or_else(PoisonError::into_inner);
    hits.push(name.to_owned());
    hits.iter().filter(|hit| *hit == name).count()
}

fn in_file(file: &str, name: &str) -> usize {
    // One short append is one line, whoever else appends.
    let appended = OpenOptions::new().create(true).append(true).open(file);
    if appended.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes())).is_err() {
        return 0;
    }
    fs::read_to_string(file).map_or(0, |hits| hits.lines().filter(|hit| *hit == name).count())
}
