//! Which names a walk is asked for.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use globset::{GlobBuilder, GlobMatcher};
use protocol::failure::ToolErrorCode;

use super::node::{Entry, Node};
use crate::executor::outcome::ToolFailure;

/// A glob: on the name where it has no slash, else on the path relative to the walk's root.
#[derive(Debug)]
pub(crate) struct NameFilter(Option<(GlobMatcher, On)>);

#[derive(Debug, Clone, Copy)]
enum On {
    Name,
    RelativePath,
}

impl NameFilter {
    /// # Errors
    /// Where the text is not a glob.
    pub(crate) fn of(glob: Option<&str>) -> Result<Self, ToolFailure> {
        let Some(text) = glob else { return Ok(NameFilter(None)) };
        let text = text.strip_prefix("./").unwrap_or(text);
        let built = GlobBuilder::new(text).literal_separator(true).build().map_err(|error| {
            ToolFailure::new(
                ToolErrorCode::InvalidArgument,
                format!(
                    "field `glob`: {text:?} is not a glob ({}); try one like *.rs or src/**/*.py",
                    error.kind()
                ),
            )
        })?;
        let on = if text.contains('/') { On::RelativePath } else { On::Name };
        Ok(NameFilter(Some((built.compile_matcher(), on))))
    }

    pub(crate) fn takes(&self, directory: &Node, entry: &Entry) -> bool {
        self.takes_path(directory.relative(), OsStr::from_bytes(&entry.name))
    }

    /// Whether `name` in the directory `relative` to the root is asked for.
    pub(crate) fn takes_path(&self, relative: &Path, name: &OsStr) -> bool {
        match &self.0 {
            None => true,
            Some((glob, On::Name)) => glob.is_match(name),
            Some((glob, On::RelativePath)) => glob.is_match(relative.join(name)),
        }
    }
}
