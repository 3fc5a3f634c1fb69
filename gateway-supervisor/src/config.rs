//! What the owner set: the environment, and `config.toml` in the state directory with the same names in lower case.
//!
//! Invariant: this is the only reader of the environment; the environment wins over the file.
//! Invariant: a value that can't be used is an error that names it; nothing falls back silently.
#![expect(clippy::disallowed_methods, reason = "the one reader of settings in the environment")]

mod delegation;
mod file;
mod git_place;
mod places;
mod skills;
mod toolchains;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use protocol::{
    limits::{LEASE, LEASE_MAX, LEASE_MIN, TURN_BYTES},
    wire::launch::Delegation,
};

pub use git_place::GitPlace;

use crate::{
    mcp::{config::ResponseMode, failure::TextMode},
    skill::{Allowlist, InvalidAllowlist},
};

/// Where the gateway listens when nothing else is set.
const LISTEN: &str = "127.0.0.1:7380";

/// Smallest and largest `CLAUDE_TOOLS_TURN_KIB`: a turn must hold its prompt, and must fit what a client takes.
const TURN_KIB: (u64, u64) = (8, 1024);

/// Everything the owner can set.
#[derive(Debug, Clone)]
pub struct Config {
    /// Everything durable and private. Absolute.
    pub state: PathBuf,
    /// What commands must reach: worktrees and scratch. Absolute.
    pub work: PathBuf,
    /// Where Claude Code is looked for, in this order.
    pub claude: Vec<PathBuf>,
    /// Where the door listens. Always loopback.
    pub listen: SocketAddr,
    /// How long a lease holds.
    pub lease: Duration,
    /// Bytes of text of one pending turn.
    pub turn_bytes: usize,
    /// How results are framed.
    pub response: ResponseMode,
    /// How much of a result is repeated as text.
    pub text: TextMode,
    /// How tasks are delegated.
    pub delegation: Delegation,
    /// The skills that a session may be started with.
    pub skills: Allowlist,
    /// Homes whose credential stores are protected: `$HOME`, then the account's own.
    pub homes: Vec<PathBuf>,
    /// What is protected beyond the built-in list.
    pub protected: Vec<PathBuf>,
    /// What commands get of the environment.
    pub command_environment: Vec<(String, String)>,
    /// How git is found and configured.
    pub git: GitPlace,
}

/// Why the settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is not one of its kind.
    #[error("{name} is {value:?}, which is not {expected}; set it to such a value or remove it")]
    Value {
        /// The setting.
        name: String,
        /// What it holds.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The file can't be read.
    #[error("the settings in {path} can't be read: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why, with the line or the key.
        reason: String,
    },
    /// The list of skills can't be used.
    #[error("{place}: {reason}")]
    Skills {
        /// Where the list stands.
        place: &'static str,
        /// What is wrong, and where in it.
        reason: InvalidAllowlist,
    },
    /// No place for the state is known.
    #[error("neither CLAUDE_TOOLS_STATE_DIR nor HOME is set; set one to an absolute path")]
    NoHome,
}

impl Config {
    /// Reads the environment and the file.
    ///
    /// # Errors
    /// Names the setting that can't be used.
    pub fn load() -> Result<Self, ConfigError> {
        Self::from_environment(env::vars_os().collect())
    }

    /// The settings in these variables, and in the file that they lead to.
    ///
    /// # Errors
    /// Names the setting that can't be used.
    pub fn from_environment(variables: BTreeMap<OsString, OsString>) -> Result<Self, ConfigError> {
        let environment = Environment(variables);
        let state = match environment.path("CLAUDE_TOOLS_STATE_DIR")? {
            Some(path) => path,
            None => places::default_state(&environment)?,
        };
        let settings = Settings { file: file::read(&state.join("config.toml"))?, environment };
        let work = places::work(&settings, &state)?;
        let homes = places::homes(&settings.environment);
        let command_environment = toolchains::variables(&settings.environment, &homes);
        let mut protected = settings.paths("CLAUDE_TOOLS_PROTECTED")?;
        protected.extend(toolchains::credentials(&command_environment));
        Ok(Self {
            claude: claude_candidates(&settings)?,
            listen: listen(&settings)?,
            lease: lease(&settings)?,
            turn_bytes: turn_bytes(&settings)?,
            response: settings.choice(
                "CLAUDE_TOOLS_MCP_RESPONSE",
                "json or sse",
                &[("json", ResponseMode::Json), ("sse", ResponseMode::Sse)],
            )?,
            text: settings.choice(
                "CLAUDE_TOOLS_MCP_TEXT",
                "full or summary",
                &[("full", TextMode::Full), ("summary", TextMode::Summary)],
            )?,
            delegation: delegation::read(&settings)?,
            skills: skills::read(&settings)?,
            homes,
            protected,
            command_environment,
            git: GitPlace::of(&settings.environment),
            state,
            work,
        })
    }

    /// Claude Code's program: the first candidate that is there and can be run.
    #[must_use]
    pub fn claude_program(&self) -> Option<PathBuf> {
        self.claude.iter().find(|path| runnable(path)).cloned()
    }
}

fn runnable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    fn raw(&self, name: &str) -> Option<&OsString> {
        self.0.get(std::ffi::OsStr::new(name)).filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, ConfigError> {
        self.raw(name).map(|value| absolute(name, PathBuf::from(value))).transpose()
    }
}

struct Settings {
    environment: Environment,
    file: BTreeMap<String, String>,
}

impl Settings {
    fn text(&self, name: &str) -> Result<Option<String>, ConfigError> {
        match self.environment.raw(name) {
            Some(value) => value.clone().into_string().map(Some).map_err(|value| ConfigError::Value {
                name: name.to_owned(),
                value: value.to_string_lossy().into_owned(),
                expected: "text in UTF-8",
            }),
            None => Ok(self.file.get(&name.to_ascii_lowercase()).cloned()),
        }
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, ConfigError> {
        match self.environment.path(name)? {
            Some(path) => Ok(Some(path)),
            None => self
                .file
                .get(&name.to_ascii_lowercase())
                .map(|value| absolute(name, PathBuf::from(value)))
                .transpose(),
        }
    }

    /// Absolute paths, separated as in `PATH`.
    fn paths(&self, name: &str) -> Result<Vec<PathBuf>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(Vec::new()) };
        env::split_paths(&text)
            .filter(|path| !path.as_os_str().is_empty())
            .map(|path| absolute(name, path))
            .collect()
    }

    fn whole(
        &self,
        name: &str,
        (least, most): (u64, u64),
        expected: &'static str,
    ) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            Ok(_) | Err(_) => Err(ConfigError::Value { name: name.to_owned(), value: text, expected }),
        }
    }

    fn choice<T: Copy>(
        &self,
        name: &str,
        expected: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        let text = self.text(name)?;
        let wanted = text.as_deref().unwrap_or(choices[0].0);
        choices
            .iter()
            .find(|(word, _)| *word == wanted)
            .map(|(_, value)| *value)
            .ok_or_else(|| ConfigError::Value { name: name.to_owned(), value: wanted.to_owned(), expected })
    }
}

fn absolute(name: &str, path: PathBuf) -> Result<PathBuf, ConfigError> {
    if path.is_absolute() {
        Ok(path)
    } else {
        let value = path.to_string_lossy().into_owned();
        Err(ConfigError::Value { name: name.to_owned(), value, expected: "an absolute path" })
    }
}

fn claude_candidates(settings: &Settings) -> Result<Vec<PathBuf>, ConfigError> {
    if let Some(program) = settings.path("CLAUDE_BIN")? {
        return Ok(vec![program]);
    }
    let mut candidates = Vec::new();
    if let Ok(Some(home)) = settings.environment.path("HOME") {
        candidates.push(home.join(".npm-global/bin/claude"));
    }
    if let Some(path) = settings.environment.raw("PATH") {
        candidates.extend(env::split_paths(path).filter(|d| d.is_absolute()).map(|d| d.join("claude")));
    }
    Ok(candidates)
}

fn listen(settings: &Settings) -> Result<SocketAddr, ConfigError> {
    let text = settings.text("CLAUDE_TOOLS_LISTEN")?.unwrap_or_else(|| LISTEN.to_owned());
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(_) | Err(_) => Err(ConfigError::Value {
            name: "CLAUDE_TOOLS_LISTEN".to_owned(),
            value: text,
            expected: "a loopback address with a port, such as 127.0.0.1:7380 or [::1]:0",
        }),
    }
}

fn lease(settings: &Settings) -> Result<Duration, ConfigError> {
    let bounds = (LEASE_MIN.as_secs(), LEASE_MAX.as_secs());
    let seconds =
        settings.whole("CLAUDE_TOOLS_LEASE_SECONDS", bounds, "a whole number from 3 to 604800 (7 days)")?;
    Ok(seconds.map_or(LEASE, Duration::from_secs))
}

fn turn_bytes(settings: &Settings) -> Result<usize, ConfigError> {
    let kib = settings.whole("CLAUDE_TOOLS_TURN_KIB", TURN_KIB, "a whole number from 8 to 1024")?;
    Ok(kib.and_then(|kib| usize::try_from(kib * 1024).ok()).unwrap_or(TURN_BYTES))
}

#[cfg(test)]
mod tests;
