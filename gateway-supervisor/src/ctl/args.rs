//! The command line.
#![expect(clippy::disallowed_methods, reason = "what a terminal says of its colours")]

use std::{env, io::IsTerminal, path::PathBuf};

use clap::{Args, Parser, Subcommand};

/// Look at the gateway and its sessions, stop them, and undo what they changed.
#[derive(Debug, Parser)]
#[command(name = "gatewayctl", version, arg_required_else_help = true)]
pub(super) struct Arguments {
    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What the owner asks.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Whether the gateway runs, where, and with how many sessions.
    Status,
    /// Every session, newest first.
    Sessions,
    /// One session in full.
    Show {
        /// Its id, or the beginning of it.
        id: String,
    },
    /// End a session with everything it runs. Its records stay.
    Stop {
        /// Its id, or the beginning of it.
        id: String,
        /// Why, for the records.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Put back what stood in a file before one change of a session. Refused where the file was changed since.
    Undo {
        /// The session's id, or the beginning of it.
        id: String,
        /// The change's action id, or the beginning of it: gatewayctl ledger ID --diff lists them. An undo has one too.
        action: String,
    },
    /// What a session's journal holds. Needs no running gateway.
    Ledger {
        /// Its id, or the beginning of it.
        id: String,
        #[command(flatten)]
        view: LedgerView,
    },
    /// The worktrees that sessions made.
    Worktree {
        #[command(subcommand)]
        command: WorktreeCommand,
    },
    /// What is wrong here, and what mends it. Needs no running gateway.
    Doctor,
    /// Skills that sessions may be started with.
    Skill {
        #[command(subcommand)]
        command: SkillCommand,
    },
    /// A completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// How a journal is seen.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct LedgerView {
    /// Check the chain of its records and every kept version.
    #[arg(long)]
    pub(super) verify: bool,
    /// Show what each change changed.
    #[arg(long)]
    pub(super) diff: bool,
    /// Print every record whole, one JSON object a line.
    #[arg(long)]
    pub(super) export: bool,
}

/// What the owner asks about worktrees.
#[derive(Debug, Subcommand)]
pub(super) enum WorktreeCommand {
    /// Every worktree that is there, and how to take its work over.
    List,
    /// Remove a session's worktree and branch. Refused while anything in them stands nowhere else.
    Remove {
        /// The session's id, or the beginning of it.
        id: String,
    },
}

/// What the owner asks about skills.
#[derive(Debug, Subcommand)]
pub(super) enum SkillCommand {
    /// Print the allowlist entry that pins this text. Needs no running gateway.
    Hash {
        /// A SKILL.md.
        file: PathBuf,
        /// The skill's id; its folder's name where it is left out.
        #[arg(long)]
        id: Option<String>,
    },
}

/// Whether to colour: on a terminal, unless `NO_COLOR` says no or the terminal has none.
pub(super) fn colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_some_and(|name| name != "dumb")
}
