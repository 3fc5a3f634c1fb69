//! Named points where a test can kill a process of the gateway: they prove what is durable when.
//!
//! `CLAUDE_TOOLS_CRASH_POINT=name:k` has a process die by SIGKILL at the k-th hit of that point;
//! `CLAUDE_TOOLS_CRASH_COUNT=file` counts every hit of every point there, a name a line, whichever process has it. With both,
//! the k-th is counted in the file, so that a process that takes a killed one's place does not die again, and nothing counts
//! while there is no such file: a test makes it when it comes to what it tests.
//!
//! Beside that file, `file.asked` may hold `name:k`: the process that has the k-th hit leaves its pid in `file.stopped` and
//! stops there (SIGSTOP). So a test decides, hit by hit and with the same processes, who dies at a point: the one that stands
//! at it, the other one, or both.
//!
//! `file.held` may hold `name:k` as well: the thread that has that hit says so in `file.holding` and waits for as long as there
//! is `file.held`, while its process goes on. So a test has something happen in the middle of a step.
//!
//! Invariant: they exist only in builds with the feature `crash-points`, which an optimised build refuses.

#[cfg(all(feature = "crash-points", not(debug_assertions)))]
compile_error!(
    "crash points are for tests: build without the feature `crash-points`, or without optimisation"
);

/// Dies here where the environment says so; does nothing in any build that is not for such tests.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub const fn point(_name: &str) {}

#[cfg(feature = "crash-points")]
pub use armed::point;

/// The variables that a process of such a build hands on to those it starts.
#[cfg(feature = "crash-points")]
#[must_use]
pub fn variables() -> Vec<(&'static str, String)> {
    armed::VARIABLES.into_iter().filter_map(|name| Some((name, armed::value(name)?))).collect()
}

#[cfg(feature = "crash-points")]
mod armed {
    use std::{
        fs::{self, OpenOptions},
        io::Write,
        sync::{Mutex, PoisonError},
    };

    use nix::sys::signal::{Signal, raise};

    pub(super) const VARIABLES: [&str; 2] = ["CLAUDE_TOOLS_CRASH_POINT", "CLAUDE_TOOLS_CRASH_COUNT"];

    static HITS: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[expect(
        clippy::disallowed_methods,
        reason = "test builds alone are told by their environment where to die"
    )]
    pub(super) fn value(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// Dies here where the environment says so.
    pub fn point(name: &str) {
        let [asked, file] = VARIABLES.map(value);
        let hits = match &file {
            Some(file) => in_file(file, name),
            None => in_process(name),
        };
        if asked.is_some_and(|asked| is(&asked, (name, hits))) {
            // Nothing is left that could see a failure of this.
            let _ = raise(Signal::SIGKILL);
        }
        if let Some(file) = &file
            && fs::read_to_string(format!("{file}.asked")).is_ok_and(|asked| is(&asked, (name, hits)))
            && fs::write(format!("{file}.stopped"), std::process::id().to_string()).is_ok()
        {
            // A test sees a process that has not stopped.
            let _ = raise(Signal::SIGSTOP);
        }
        hold((name, hits));
    }

    /// Waits here where a test says so, for as long as it says so.
    fn hold(hit: (&str, usize)) {
        let Some(file) = value(VARIABLES[1]) else { return };
        let held = format!("{file}.held");
        let here = || fs::read_to_string(&held).is_ok_and(|asked| is(&asked, hit));
        if here() && fs::write(format!("{file}.holding"), "").is_ok() {
            while here() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }

    /// Whether this hit is the one that is asked for.
    fn is(asked: &str, (name, hits): (&str, usize)) -> bool {
        let asked = asked.rsplit_once(':');
        asked.is_some_and(|(point, hit)| point == name && hit.parse() == Ok(hits))
    }

    fn in_process(name: &str) -> usize {
        let mut hits = HITS.lock().unwrap_or_else(PoisonError::into_inner);
        hits.push(name.to_owned());
        hits.iter().filter(|hit| *hit == name).count()
    }

    fn in_file(file: &str, name: &str) -> usize {
        // One short append is one line, whoever else appends.
        let appended = OpenOptions::new().append(true).open(file);
        if appended.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes())).is_err() {
            return 0;
        }
        fs::read_to_string(file).map_or(0, |hits| hits.lines().filter(|hit| *hit == name).count())
    }
}
