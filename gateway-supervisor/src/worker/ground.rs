//! Asks the worker's program whether a directory is protected.
#![expect(clippy::disallowed_methods, reason = "starts the worker's program for a question")]

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
};

use protocol::wire::ground::{Ground, GroundQuestion};

/// What `program` says of it. Blocks for a few milliseconds.
///
/// # Errors
/// Where there is no such program, or it does not answer.
pub(crate) fn ask(program: &Path, question: &GroundQuestion) -> io::Result<Ground> {
    let mut child = Command::new(program)
        .arg("ground")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // It reads all of it before it says anything, and it hears the end because this end is dropped.
    let told = match child.stdin.take() {
        Some(stdin) => serde_json::to_writer(stdin, question).map_err(io::Error::from),
        None => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
    };
    let said = child.wait_with_output()?;
    told?;
    serde_json::from_slice(&said.stdout).map_err(io::Error::from)
}
