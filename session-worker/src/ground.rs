//! What is protected for a session, and whether its directory is.
//!
//! `session-worker ground` tells the supervisor, before it lets a session write somewhere; the worker and an undo look once
//! more when they start.

use std::{
    ffi::OsStr,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use protocol::{
    limits::LAUNCH_BYTES,
    wire::{
        ground::{Ground, GroundQuestion},
        launch::ProtectedRoots,
    },
};
use sandbox_profiles::{Judgement, Protected, ProtectedSources};

/// Answers where this process was started for that; none otherwise.
pub(crate) fn answer_if_asked() -> Option<ExitCode> {
    // A session's folder is an absolute path, so that no session is called "ground".
    if std::env::args_os().nth(1).as_deref() != Some(OsStr::new("ground")) {
        return None;
    }
    Some(match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "session-worker: judging a directory failed: {error}");
            ExitCode::FAILURE
        }
    })
}

fn answer() -> io::Result<()> {
    let mut question = Vec::new();
    io::stdin().lock().take(LAUNCH_BYTES).read_to_end(&mut question)?;
    let question: GroundQuestion = serde_json::from_slice(&question)?;
    let ground = judge(&protected(&question.protected, &[]), &question.directory);
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, &ground)?;
    writeln!(stdout)
}

/// Why no session writes in such a directory.
pub(crate) const PROTECTED: &str =
    "the session's directory is a credential store or belongs to the gateway: nothing is written there";

/// What is protected; also all that lies beside an `own` folder, such as the scratch of another session.
pub(crate) fn protected(roots: &ProtectedRoots, own: &[PathBuf]) -> Protected {
    Protected::gather(&ProtectedSources {
        homes: roots.homes.clone(),
        own: roots.own.clone(),
        added: roots.added.clone(),
        alone_below: own.to_vec(),
    })
}

/// Whether a directory is.
pub(crate) fn judge(protected: &Protected, directory: &Path) -> Ground {
    match protected.judge(directory, None) {
        Judgement::Open => Ground::Open,
        Judgement::Protected(_) => Ground::Protected,
    }
}
