//! `session-worker walls FOLDER`: whether the walls stand on this machine, as one JSON line. `gatewayctl doctor` asks it,
//! because the program that builds the walls is the one that can tell.

use std::{
    ffi::OsStr,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use sandbox_profiles::{launch::Helper, probe};

/// Answers where this process was started for that; none otherwise.
pub(crate) fn answer_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new("walls")) {
        return None;
    }
    // A session's folder is an absolute path, so that no session is called "walls".
    let folder = PathBuf::from(arguments.next()?);
    Some(match tell(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "session-worker: trying the walls failed: {error}");
            ExitCode::FAILURE
        }
    })
}

fn tell(folder: &Path) -> io::Result<()> {
    let found = probe(&Helper::this_program()?, &folder.canonicalize()?);
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, &found)?;
    writeln!(stdout)
}
