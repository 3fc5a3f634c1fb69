//! Tool calls as a reply gives them.

use std::path::Path;

use serde_json::{Value, json};

/// A call's tool and input.
pub type Call = (&'static str, Value);

/// Reads a file whole.
#[must_use]
pub fn read(path: &Path) -> Call {
    ("Read", json!({"file_path": path}))
}

/// Replaces the one place that reads `old`.
#[must_use]
pub fn edit(path: &Path, old: &str, new: &str) -> Call {
    ("Edit", json!({"file_path": path, "old_string": old, "new_string": new}))
}

/// Writes a file whole.
#[must_use]
pub fn write(path: &Path, content: &str) -> Call {
    ("Write", json!({"file_path": path, "content": content}))
}
