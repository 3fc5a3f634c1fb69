//! Where the gateway's folders and the user's homes are.

use std::path::{Path, PathBuf};

use super::{ConfigError, Environment, Settings};

pub(super) fn default_state(environment: &Environment) -> Result<PathBuf, ConfigError> {
    if cfg!(target_os = "macos") {
        let home = environment.path("HOME")?.ok_or(ConfigError::NoHome)?;
        return Ok(home.join("Library/Application Support/native-gateway"));
    }
    match environment.path("XDG_DATA_HOME") {
        Ok(Some(data)) => Ok(data.join("native-gateway")),
        // A relative XDG_DATA_HOME is to be ignored, as its specification says.
        Ok(None) | Err(_) => {
            let home = environment.path("HOME")?.ok_or(ConfigError::NoHome)?;
            Ok(home.join(".local/share/native-gateway"))
        }
    }
}

/// What commands must reach can't lie in what is closed to them.
pub(super) fn work(settings: &Settings, state: &Path) -> Result<PathBuf, ConfigError> {
    const NAME: &str = "CLAUDE_TOOLS_WORK_DIR";
    let work = settings.path(NAME)?.unwrap_or_else(|| with_suffix(state, "-work"));
    let as_it_is = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if as_it_is(&work).starts_with(as_it_is(state)) {
        let value = work.to_string_lossy().into_owned();
        let expected = "a path outside the state directory, which no command can reach";
        return Err(ConfigError::Value { name: NAME.to_owned(), value, expected });
    }
    Ok(work)
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) fn homes(environment: &Environment) -> Vec<PathBuf> {
    let account = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.dir);
    let named = environment.path("HOME").unwrap_or(None);
    let mut homes: Vec<PathBuf> =
        named.into_iter().chain(account).filter(|home| home.is_absolute()).collect();
    homes.dedup();
    homes
}
