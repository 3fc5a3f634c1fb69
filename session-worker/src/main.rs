//! The hands: one process per session that owns Claude Code, the bridge it takes for its model, and the tool executor.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")
)]

mod args;
mod bridge;
mod claude;
mod executor;
mod ground;
mod harden;
mod lease;
mod link;
mod log;
mod reaper;
mod server;
mod state;
mod subagent;
mod top_level;
mod undo;
mod walls;
mod worker;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

/// How long work that was told to stop may hold up the process's end.
const LAST: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    sandbox_profiles::launch::helper_main_if_asked();
    if let Some(code) =
        walls::answer_if_asked().or_else(ground::answer_if_asked).or_else(undo::carry_out_if_asked)
    {
        return code;
    }
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "the worker can't go on");
            // Nobody may read it; then the exit code has to do.
            let _ = writeln!(io::stderr(), "session-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), String> {
    harden::harden().map_err(|error| format!("hardening the process failed: {error}"))?;
    let launch = args::read(std::env::args_os().skip(1)).map_err(|error| error.to_string())?;
    log::open(&launch.directory).map_err(|error| format!("opening the log failed: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("starting the runtime failed: {error}"))?;
    let ended = runtime.block_on(worker::run(launch));
    runtime.shutdown_timeout(LAST);
    ended.map_err(|error| format!("setting up the session failed: {error}"))
}
