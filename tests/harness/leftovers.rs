//! What a session may leave behind when it ends, and must not.

use std::{fs, path::PathBuf};

use crate::Gateway;

/// Sockets, unfinished files and outboxes that a session which ended left.
#[must_use]
pub fn leftovers(gateway: &Gateway, session: &str) -> Vec<PathBuf> {
    let folder = gateway.state.join("sessions").join(session);
    let scratch = PathBuf::from(format!("{}-work/scratch/{session}", gateway.state.display()));
    let mut left: Vec<PathBuf> = scratch.exists().then_some(scratch).into_iter().collect();
    for folder in [gateway.state.join("run"), folder.clone(), folder.join("blobs")] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let temporary = [".part", ".sock", ".new", ".tmp"].iter().any(|ending| name.ends_with(ending));
            let control = name.starts_with("control") || name.starts_with("mcp");
            if (temporary && !control) || name.contains("outbox") {
                left.push(entry.path());
            }
        }
    }
    left
}
