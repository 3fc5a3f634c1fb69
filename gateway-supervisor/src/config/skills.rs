//! The owner's list of skills, from the environment or the file.

use super::{ConfigError, Settings};
use crate::skill::Allowlist;

/// The setting's name.
pub(super) const NAME: &str = "CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON";

/// The list; an empty one where none is set.
pub(super) fn read(settings: &Settings) -> Result<Allowlist, ConfigError> {
    let Some(text) = settings.text(NAME)? else { return Ok(Allowlist::default()) };
    let place = match settings.environment.raw(NAME) {
        Some(_) => NAME,
        None => "claude_tools_native_skill_allowlist_json in config.toml",
    };
    Allowlist::from_json(&text).map_err(|reason| ConfigError::Skills { place, reason })
}
