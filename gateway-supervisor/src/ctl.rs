//! `gatewayctl`: what the owner asks and sees.
//!
//! Exit codes: 0 done (also a stop of a session that had ended), 1 failed, 2 usage, 3 no supervisor.
//! Invariant: with `--json` stdout is exactly one object, of an error too; without it nothing that came from a client
//! reaches the terminal with control characters in it.

mod args;
mod client;
mod doctor;
mod ledger;
mod page;
mod select;
mod sessions;
mod skill;
mod undo;
mod worktrees;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use args::{Arguments, Command, SkillCommand, WorktreeCommand};
use clap::{CommandFactory, Parser};
use protocol::{
    failure::{ErrorCode, Failure},
    wire::control::ControlRequest,
};
use serde_json::{Value, json};

use crate::config::Config;

/// Why a command was not done.
#[derive(Debug)]
enum CtlError {
    /// No supervisor answers.
    NoSupervisor(String),
    /// The supervisor, or this program itself, said no.
    Refused(Failure),
}

impl CtlError {
    fn failed(message: String, next: &'static str) -> Self {
        Self::Refused(Failure::fixed(ErrorCode::Internal, message, next))
    }

    const fn code(&self) -> u8 {
        match self {
            Self::NoSupervisor(_) => 3,
            Self::Refused(_) => 1,
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::NoSupervisor(message) => json!({"error": {
                "code": "no_supervisor", "message": message, "retryable": true, "next": "start the gateway: scripts/run",
            }}),
            Self::Refused(failure) => json!({"error": failure}),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::NoSupervisor(message) => format!("{message}\nStart the gateway with scripts/run."),
            Self::Refused(failure) => format!("{}\nNext: {}", failure.message, failure.next),
        }
    }
}

/// What a command found, for a program and for a person.
struct Report {
    json: Value,
    page: page::Page,
    code: u8,
}

impl Report {
    const fn done(json: Value, page: page::Page) -> Self {
        Self { json, page, code: 0 }
    }
}

/// Runs the command line and says how it went.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Command::Completions { shell } = arguments.command {
        return completions(shell, &arguments);
    }
    let outcome = if let Command::Skill { command: SkillCommand::Hash { file, id } } = &arguments.command {
        // Helps to set the settings right, so it can't need them.
        skill::hash(file, id.as_deref())
    } else {
        Config::load()
            .map_err(|e| CtlError::failed(e.to_string(), "set it right, then ask again"))
            .and_then(|config| perform(&arguments.command, &config))
    };
    let code = match &outcome {
        Ok(report) => report.code,
        Err(error) => error.code(),
    };
    match (outcome, arguments.json) {
        (Ok(report), true) => print(&format!("{:#}\n", report.json)),
        (Err(error), true) => print(&format!("{:#}\n", error.json())),
        (Ok(report), false) => print(&report.page.render(args::colour(&io::stdout()))),
        (Err(error), false) => complain(&error.text()),
    }
    ExitCode::from(code)
}

fn perform(command: &Command, config: &Config) -> Result<Report, CtlError> {
    match command {
        Command::Status => {
            let body = client::ask(config, &ControlRequest::Status)?;
            Ok(Report::done(body.clone(), sessions::overview(&body, config)))
        }
        Command::Sessions => {
            let body = client::ask(config, &ControlRequest::Sessions)?;
            Ok(Report::done(body.clone(), sessions::list(&body)))
        }
        Command::Show { id } => {
            let session = select::session(config, id)?;
            let body = client::ask(config, &ControlRequest::Show { session })?;
            Ok(Report::done(body.clone(), sessions::one(&body)))
        }
        Command::Stop { id, reason } => {
            let session = select::session(config, id)?;
            let body = client::ask(config, &ControlRequest::Stop { session, reason: reason.clone() })?;
            Ok(Report::done(body.clone(), sessions::stopped(&body)))
        }
        Command::Undo { id, action } => {
            let session = select::session(config, id)?;
            let body = client::ask(config, &ControlRequest::Undo { session, action: action.clone() })?;
            Ok(Report::done(body.clone(), undo::undone(&body)))
        }
        Command::Ledger { id, view } => ledger::view(config, id, view),
        Command::Worktree { command: WorktreeCommand::List } => {
            let body = client::ask(config, &ControlRequest::Worktrees)?;
            Ok(Report::done(body.clone(), worktrees::list(&body)))
        }
        Command::Worktree { command: WorktreeCommand::Remove { id } } => {
            let session = select::session(config, id)?;
            let body = client::ask(config, &ControlRequest::RemoveWorktree { session })?;
            Ok(Report::done(body.clone(), worktrees::removed(&body)))
        }
        Command::Doctor => Ok(doctor::examine(config)),
        // Need no settings, and were answered before they were read.
        Command::Completions { .. } | Command::Skill { .. } => {
            Ok(Report::done(json!({}), page::Page::default()))
        }
    }
}

fn completions(shell: clap_complete::Shell, arguments: &Arguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gatewayctl", &mut script);
    let script = String::from_utf8_lossy(&script);
    if arguments.json {
        print(&format!("{:#}\n", json!({"shell": shell.to_string(), "script": script})));
    } else {
        print(&script);
    }
    ExitCode::SUCCESS
}

/// A reader that hung up (`gatewayctl sessions | head`) has what it wanted.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "gatewayctl: {}", page::printable(text));
}
