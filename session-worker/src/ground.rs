//! `session-worker ground`: whether a directory is protected, for the supervisor, before it lets a session write there.

use std::{
    ffi::OsStr,
    io::{self, Read, Write},
    process::ExitCode,
};

use protocol::{
    limits::LAUNCH_BYTES,
    wire::ground::{Ground, GroundQuestion},
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
    let ground = judge(serde_json::from_slice(&question)?);
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, &ground)?;
    writeln!(stdout)
}

fn judge(question: GroundQuestion) -> Ground {
    let GroundQuestion { protected, directory } = question;
    let protected = Protected::gather(&ProtectedSources {
        homes: protected.homes,
        own: protected.own,
        added: protected.added,
        alone_below: Vec::new(),
    });
    match protected.judge(&directory, None) {
        Judgement::Open => Ground::Open,
        Judgement::Protected(_) => Ground::Protected,
    }
}
