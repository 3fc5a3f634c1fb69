//! Asks another program one question.
#![expect(clippy::disallowed_methods, reason = "the launcher of what the doctor asks; it ends its own child")]

use std::{
    ffi::OsStr,
    io::{self, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Either program answers within a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(20);

const LOOK: Duration = Duration::from_millis(20);

/// More than any answer has; the rest is not read.
const SAID_BYTES: u64 = 16 * 1024;

/// What the program prints, with no environment and no home that it could write to.
pub(super) fn output(program: &Path, arguments: &[&OsStr]) -> io::Result<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let stdout = child.stdout.take();
    let ended = wait(&mut child);
    if ended.is_err() {
        // It is our own child and not waited for, so its pid is still its own.
        let _ = child.kill();
        let _ = child.wait();
    }
    ended?;
    let mut said = String::new();
    if let Some(stdout) = stdout {
        stdout.take(SAID_BYTES).read_to_string(&mut said)?;
    }
    Ok(said)
}

fn wait(child: &mut Child) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(format!("it ended with {status}"))),
            None if Instant::now() > end => {
                return Err(io::Error::other(format!("no answer within {} s", PATIENCE.as_secs())));
            }
            None => thread::sleep(LOOK),
        }
    }
}
