//! What a command finds in its environment: caches in the scratch, and what the supervisor passes on.

use std::ffi::OsString;

use super::{CommandSettings, scratch::Scratch};

/// Where programs are looked for when the supervisor passes no `PATH` on.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Variables that point into the scratch, and the folder.
const IN_SCRATCH: &[(&str, &str)] = &[
    ("HOME", "home"),
    ("TMPDIR", "tmp"),
    ("TMP", "tmp"),
    ("TEMP", "tmp"),
    ("XDG_CACHE_HOME", "cache"),
    ("XDG_CONFIG_HOME", "config"),
    ("XDG_DATA_HOME", "data"),
    ("XDG_STATE_HOME", "data"),
    ("CARGO_TARGET_DIR", "target"),
    ("npm_config_cache", "npm"),
    ("PIP_CACHE_DIR", "pip"),
    ("GOCACHE", "go-build"),
    ("GOTMPDIR", "go-tmp"),
    ("GRADLE_USER_HOME", "gradle"),
    ("PYTHONPYCACHEPREFIX", "python"),
];

/// Variables with a fixed value, and why.
const FIXED: &[(&str, &str)] = &[
    // There is no network: say so before a tool waits for one.
    ("CARGO_NET_OFFLINE", "true"),
    ("npm_config_offline", "true"),
    ("npm_config_update_notifier", "false"),
    ("PIP_NO_INPUT", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    // The project is read-only: don't try to leave something in it.
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTEST_ADDOPTS", "-p no:cacheprovider"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    // What runs below an executor is none itself [I2].
    ("CLAUDE_TOOLS_NATIVE_EXECUTOR", "0"),
];

/// The environment of a session's commands.
#[derive(Debug)]
pub(super) struct Environment {
    variables: Vec<(String, OsString)>,
    search_path: String,
}

impl Environment {
    pub(super) fn new(settings: &CommandSettings, scratch: &Scratch) -> Self {
        let given = |name: &str| settings.environment.iter().any(|(given, _)| given == name);
        let mut variables: Vec<(String, OsString)> = Vec::new();
        for (name, folder) in IN_SCRATCH {
            variables.push(((*name).to_owned(), scratch.folder(folder).into_os_string()));
        }
        for (name, value) in FIXED {
            variables.push(((*name).to_owned(), value.into()));
        }
        let own: Vec<String> = variables.iter().map(|(name, _)| name.clone()).collect();
        for (name, value) in &settings.environment {
            // What keeps the caches in the scratch can't be turned elsewhere.
            if !own.contains(name) {
                variables.push((name.clone(), value.into()));
            }
        }
        let search_path = settings.environment.iter().find(|(name, _)| name == "PATH");
        let search_path = search_path.map_or_else(|| SEARCH_PATH.to_owned(), |(_, path)| path.clone());
        if !given("PATH") {
            variables.push(("PATH".to_owned(), search_path.clone().into()));
        }
        Self { variables, search_path }
    }

    pub(super) fn search_path(&self) -> &str {
        &self.search_path
    }

    pub(super) fn of_command(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.clone())).collect()
    }
}
