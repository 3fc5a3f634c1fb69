//! How the worker is started: one argument for people, one JSON line on standard input for the worker.
//!
//! Invariant: the command line names the session's folder and nothing else; every secret comes over standard input.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
};

use protocol::{limits::LAUNCH_BYTES, wire::launch::WorkerLaunch};

/// Why the worker does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgsError {
    /// Not exactly one argument.
    #[error("usage: session-worker <session directory>; the supervisor starts it, nobody else needs to")]
    Usage,
    /// Standard input can't be read or replaced.
    #[error("reading the launch from standard input failed: {0}")]
    Input(#[from] io::Error),
    /// Standard input holds something else.
    #[error("standard input holds no launch: {0}")]
    Launch(serde_json::Error),
    /// The argument and the launch name different folders.
    #[error("the command line names another folder than the launch")]
    Contradiction,
}

/// Reads the command line and standard input, and leaves standard input empty.
///
/// # Errors
/// Where either is not what a supervisor gives.
pub(crate) fn read(mut arguments: impl Iterator<Item = OsString>) -> Result<WorkerLaunch, ArgsError> {
    let (Some(directory), None) = (arguments.next(), arguments.next()) else { return Err(ArgsError::Usage) };
    let launch = launch(io::stdin().lock())?;
    nix::unistd::dup2_stdin(File::open("/dev/null")?).map_err(io::Error::from)?;
    if directory == launch.directory.as_os_str() { Ok(launch) } else { Err(ArgsError::Contradiction) }
}

fn launch(input: impl Read) -> Result<WorkerLaunch, ArgsError> {
    let mut line = Vec::new();
    let mut input = io::BufReader::new(input.take(LAUNCH_BYTES));
    io::BufRead::read_until(&mut input, b'\n', &mut line)?;
    serde_json::from_slice(&line).map_err(ArgsError::Launch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_argument_and_a_whole_launch_will_do() {
        assert!(matches!(read([].into_iter()), Err(ArgsError::Usage)));
        assert!(matches!(read(["a".into(), "b".into()].into_iter()), Err(ArgsError::Usage)));
        for input in ["", "{}", "nonsense\n"] {
            assert!(matches!(launch(input.as_bytes()), Err(ArgsError::Launch(_))), "{input}");
        }
    }
}
