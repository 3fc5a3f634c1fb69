//! Names of staged files, known before the file exists.
//!
//! Invariant: the name follows from the action's id alone, and the action is durable before it is prepared: whatever
//! dies when, the name of every staged file is known.

use std::ffi::OsStr;

use protocol::{action::temporary_name, id::ActionId};

/// The name of an action's staged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TempName(String);

impl TempName {
    /// The name for this action.
    pub(crate) fn for_action(action: ActionId) -> Self {
        Self(temporary_name(action))
    }

    /// The name as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as the system takes it.
    pub(super) fn as_os_str(&self) -> &OsStr {
        OsStr::new(&self.0)
    }
}
