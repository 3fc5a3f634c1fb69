//! Where git is, and where it finds the user's own configuration.

use std::ffi::OsString;

use super::Environment;

/// How git is found and configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitPlace {
    /// The supervisor's own PATH.
    pub path: String,
    /// HOME and, where set, `XDG_CONFIG_HOME`.
    pub user: Vec<(OsString, OsString)>,
}

impl GitPlace {
    pub(super) fn of(environment: &Environment) -> Self {
        let value = |name| environment.raw(name).cloned();
        Self {
            path: value("PATH").and_then(|path| path.into_string().ok()).unwrap_or_default(),
            user: ["HOME", "XDG_CONFIG_HOME"]
                .into_iter()
                .filter_map(|name| value(name).map(|value| (name.into(), value)))
                .collect(),
        }
    }
}
