//! Follows a command until the last of its processes is gone, and writes down what it did.

use std::{
    fmt::Write as _,
    io::{PipeReader, Write},
    thread,
    time::{Duration, Instant},
};

use protocol::{
    failure::ToolErrorCode,
    limits::RECEIPT_BYTES,
    receipt::{CommandEnd, CommandRun, Facts},
};
use sandbox_profiles::launch::{Caged, Ending};

use super::{
    note,
    output::Captured,
    scratch::{LARGEST_TOTAL, Meter, Scratch},
};
use crate::executor::{
    outcome::{ToolFailure, ToolOutcome},
    tools::Stop,
};

/// How soon a stop is noticed.
const TICK: Duration = Duration::from_millis(50);

/// What a pipe holds: more than is read at once, and not more than stays in a cache.
#[cfg(target_os = "linux")]
const PIPE_BYTES: i32 = 256 * 1024;

/// What a result holds besides output: its first line and headings.
const FRAME: usize = 1_024;

/// What a command is watched for.
pub(super) struct Watch<'a> {
    pub(super) timeout: Duration,
    pub(super) began: Instant,
    pub(super) stop: &'a Stop,
    pub(super) scratch: &'a Scratch,
}

enum End {
    Itself(Ending),
    TimedOut,
    Stopped,
    ScratchFull,
}

/// Follows a started command to its end.
pub(super) fn follow(mut caged: Caged, typed: String, watch: &Watch<'_>) -> ToolOutcome {
    let stdin = caged.stdin.take();
    let readers = (caged.stdout.take(), caged.stderr.take());
    // Each stream has its own thread: none can hold up another. A command that doesn't read its input closes it.
    let writer = stdin.map(|mut stdin| thread::spawn(move || drop(stdin.write_all(typed.as_bytes()))));
    let [stdout, stderr] = [readers.0, readers.1].map(|stream| {
        stream.map(|stream| {
            widen(&stream);
            thread::spawn(move || Captured::read(stream))
        })
    });
    let end = until_the_end(&caged, watch);
    let took = watch.began.elapsed();
    // The cage is gone, and with it every other end of these streams.
    drop(writer.map(thread::JoinHandle::join));
    let captured = |reader: Option<thread::JoinHandle<Captured>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    match end {
        Ok(end) => told(&end, took, (captured(stdout), captured(stderr)), watch),
        Err(error) => ToolOutcome::failed(&ToolFailure::new(
            ToolErrorCode::Indeterminate,
            format!(
                "running a command: its cage can't be heard any more ({error}), so how it ended is not known"
            ),
        )),
    }
}

/// Lets a command that says much run ahead of its reader instead of waiting for it at every 64 KiB. The system may have no
/// room for it; then the pipe stays as it is.
fn widen(pipe: &PipeReader) {
    #[cfg(target_os = "linux")]
    let _ = nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
    #[cfg(target_os = "macos")]
    let _ = pipe; // its pipes grow by themselves
}

fn until_the_end(caged: &Caged, watch: &Watch<'_>) -> std::io::Result<End> {
    let deadline = watch.began + watch.timeout;
    let mut meter = Meter::of(watch.scratch);
    let end = loop {
        let now = Instant::now();
        if let Some(ending) = caged.wait_until(deadline.min(now + TICK))? {
            return Ok(End::Itself(ending));
        }
        if watch.stop.is_raised() {
            break End::Stopped;
        }
        if Instant::now() >= deadline {
            break End::TimedOut;
        }
        if meter.is_over() {
            break End::ScratchFull;
        }
    };
    caged.kill_tree()?;
    match caged.wait()? {
        // It ended by itself in the very last moment.
        ending @ (Ending::Exited(_) | Ending::Signaled(_)) => Ok(End::Itself(ending)),
        Ending::Killed | Ending::Lost => Ok(end),
    }
}

fn told(end: &End, took: Duration, streams: (Captured, Captured), watch: &Watch<'_>) -> ToolOutcome {
    let (stdout, stderr) = streams;
    let (first, end) = match end {
        End::Itself(Ending::Exited(code)) => (format!("exit code: {code}"), CommandEnd::Exit(*code)),
        End::Itself(Ending::Signaled(signal)) => (format!("signal: {signal}"), CommandEnd::Signal(*signal)),
        End::TimedOut => {
            let seconds = watch.timeout.as_secs();
            (format!("timed out after {seconds} s"), CommandEnd::TimedOut(seconds))
        }
        End::Stopped => ("stopped with its session".to_owned(), CommandEnd::Stopped),
        End::ScratchFull => (
            format!(
                "ended: the session's scratch holds more than {} GiB; start a new session for an empty one",
                LARGEST_TOTAL >> 30
            ),
            CommandEnd::Stopped,
        ),
        End::Itself(Ending::Killed | Ending::Lost) => {
            return ToolOutcome::failed(&ToolFailure::new(
                ToolErrorCode::Indeterminate,
                "running a command: its cage was torn down from outside, so how it ended is not known; look at what it \
                 should have made before you run it again",
            ));
        }
    };
    let totals = (stdout.total(), stderr.total());
    let (out_room, err_room) = rooms(totals);
    let ((out, out_cut), (err, err_cut)) = (stdout.shown(out_room), stderr.shown(err_room));
    let mut text = format!("{first}\ntook: {:.1} s", took.as_secs_f64());
    for (name, part) in [("stdout", out), ("stderr", err)] {
        if !part.is_empty() {
            // Writing to a string can't fail.
            let _ = write!(text, "\n--- {name} ---\n{part}");
        }
    }
    if end != CommandEnd::Exit(0)
        && let Some(note) = note::on(&text)
    {
        let _ = write!(text, "\n--- note ---\n{note}");
    }
    let facts = Facts::Ran(CommandRun {
        end,
        stdout_bytes: totals.0,
        stderr_bytes: totals.1,
        cut_bytes: out_cut + err_cut,
    });
    if end == CommandEnd::Exit(0) {
        ToolOutcome::done(text, facts)
    } else {
        ToolOutcome::done_badly(text, facts)
    }
}

/// Room for each stream's text: what one does not need the other gets.
fn rooms((out, err): (u64, u64)) -> (usize, usize) {
    let all = RECEIPT_BYTES - FRAME;
    let wants = |bytes: u64| usize::try_from(bytes.saturating_mul(3)).unwrap_or(usize::MAX);
    let out_room = (all / 2).max(all.saturating_sub(wants(err)));
    let err_room = (all / 2).max(all.saturating_sub(wants(out)));
    (out_room.min(all), err_room.min(all))
}
