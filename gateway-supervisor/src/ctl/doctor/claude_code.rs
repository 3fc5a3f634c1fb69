//! Whether Claude Code is there, runs, and is one that this release was verified with.

use std::ffi::OsStr;

use protocol::claude_code::{UNKNOWN, VERIFIED, number, verified};

use super::{Finding, program::output};
use crate::config::Config;

const NAME: &str = "claude code";

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
    let said = match output(&program, &[OsStr::new("--version")]) {
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
