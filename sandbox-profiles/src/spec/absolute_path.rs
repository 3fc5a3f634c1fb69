//! A path that means the same thing to every process: absolute, without `.` and `..`.

use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    ops::Deref,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use super::SpecError;

/// An absolute path without `.`, `..` and NUL bytes; repeated slashes are folded. It need not exist, and it is
/// not resolved: whoever builds a wall from it gives the canonical path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "OsString", into = "OsString")]
pub struct AbsolutePath(PathBuf);

impl AbsolutePath {
    /// Checks `path`.
    ///
    /// # Errors
    /// [`SpecError::Path`] where it is relative, holds `..` or a NUL byte.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, SpecError> {
        let path = path.into();
        let why = if path.as_os_str().as_bytes().contains(&0) {
            Some("it holds a NUL byte")
        } else if !path.is_absolute() {
            Some("it is not absolute")
        } else if path.components().any(|part| part == Component::ParentDir) {
            Some("it climbs with ..")
        } else {
            None
        };
        match why {
            Some(why) => Err(SpecError::Path { path, why }),
            // Collecting the components folds `//` and `/./`.
            None => Ok(AbsolutePath(path.components().collect())),
        }
    }

    /// The path itself.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Deref for AbsolutePath {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for AbsolutePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<OsString> for AbsolutePath {
    type Error = SpecError;
    fn try_from(path: OsString) -> Result<Self, SpecError> {
        AbsolutePath::new(path)
    }
}

impl From<AbsolutePath> for OsString {
    fn from(path: AbsolutePath) -> OsString {
        path.0.into_os_string()
    }
}
