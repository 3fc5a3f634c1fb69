//! The supervisor's command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gateway_supervisor::{
    config::Config,
    log,
    supervisor::serve::{ServeFailure, serve},
};

/// Lets ChatGPT drive real Claude Code sessions on this machine.
#[derive(Debug, Parser)]
#[command(name = "gateway-supervisor", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves MCP on loopback until SIGTERM; prints one JSON line when it is ready. Settings come from the environment and from
    /// config.toml in the state directory.
    Serve,
}

#[expect(clippy::print_stderr, reason = "the one sentence that says why nothing is served")]
fn main() -> ExitCode {
    let Arguments { command: Command::Serve } = Arguments::parse();
    log::start();
    match Config::load().map_err(ServeFailure::from).and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("gateway-supervisor: {failure}");
            ExitCode::FAILURE
        }
    }
}
