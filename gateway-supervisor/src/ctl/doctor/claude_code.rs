//! Whether Claude Code is there, runs, and is one that this release was verified with.
#![expect(clippy::disallowed_methods, reason = "asks Claude Code for its version")]

use std::{
    io::{self, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use protocol::claude_code::{UNKNOWN, VERIFIED, number, verified};

use super::Finding;
use crate::config::Config;

const NAME: &str = "claude code";

/// It answers within a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(20);

const LOOK: Duration = Duration::from_millis(20);

/// More than any version has; the rest is not read.
const SAID_BYTES: u64 = 4096;

pub(super) fn program(config: &Config) -> Finding {
    let [pinned, ..] = VERIFIED;
    let fetch = format!(
        "npm install -g --ignore-scripts @anthropic-ai/claude-code@{pinned}, or set CLAUDE_BIN to the path that \
         scripts/claude-code prints"
    );
    let Some(program) = config.claude_program() else {
        let looked = config.claude.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        return Finding::bad(NAME, format!("not found; looked for {looked}"), fetch);
    };
    let said = match version(&program) {
        Ok(said) => said,
        Err(error) => {
            return Finding::bad(NAME, format!("{} does not run: {error}", program.display()), fetch);
        }
    };
    let (at, number) = (program.display(), number(&said));
    if verified(number) {
        return Finding::good(NAME, format!("{number} at {at}, verified with this release"));
    }
    if number == UNKNOWN {
        return Finding::bad(NAME, format!("{at} does not say a version: is it Claude Code?"), fetch);
    }
    Finding::care(NAME, format!("{number} at {at}, not verified with this release"), fetch)
}

/// What the program says to `--version`, with no home that it could write to.
fn version(program: &Path) -> io::Result<String> {
    let mut child = Command::new(program)
        .arg("--version")
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
            Some(status) => return Err(io::Error::other(format!("--version ended with {status}"))),
            None if Instant::now() > end => {
                return Err(io::Error::other(format!(
                    "no answer to --version within {} s",
                    PATIENCE.as_secs()
                )));
            }
            None => thread::sleep(LOOK),
        }
    }
}
