//! The state directory, the token in it, and the space below it.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use nix::{
    sys::statvfs::statvfs,
    unistd::{AccessFlags, access, geteuid},
};

use super::Finding;
use crate::config::Config;

/// Below this a worker's file versions and the journal soon meet a full disk.
const LITTLE_BYTES: u64 = 1 << 30;

/// Below this nothing should be started.
const TOO_LITTLE_BYTES: u64 = 100 << 20;

/// As many open files as a message names.
const NAMED: usize = 3;

/// The directory itself, and what lies in it.
pub(super) fn directory(config: &Config) -> Vec<Finding> {
    const NAME: &str = "state directory";
    let path = &config.state;
    let shown = path.display();
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return vec![absent(NAME, path)],
        Err(error) => {
            return vec![Finding::bad(
                NAME,
                format!("{shown} can't be looked at: {error}"),
                "set CLAUDE_TOOLS_STATE_DIR to a directory of this user",
            )];
        }
    };
    if !found.is_dir() {
        return vec![Finding::bad(
            NAME,
            format!("{shown} is no directory"),
            format!("move it away: mv '{shown}' '{shown}.old'"),
        )];
    }
    if let Some(finding) = not_private(NAME, path, &found, 0o700) {
        return vec![finding];
    }
    if access(path, AccessFlags::W_OK | AccessFlags::X_OK).is_err() {
        return vec![Finding::bad(
            NAME,
            format!("{shown} can't be written"),
            "is its file system mounted read-only?",
        )];
    }
    let mut findings = vec![Finding::good(NAME, format!("{shown}, for this user only"))];
    findings.extend(open_entries(path));
    findings
}

fn absent(name: &'static str, path: &Path) -> Finding {
    let parent = path.ancestors().skip(1).find(|p| p.is_dir()).unwrap_or(path);
    if access(parent, AccessFlags::W_OK | AccessFlags::X_OK).is_ok() {
        return Finding::good(name, format!("{} will be made at the first start", path.display()));
    }
    Finding::bad(
        name,
        format!("{} is not there, and {} can't be written", path.display(), parent.display()),
        "set CLAUDE_TOOLS_STATE_DIR to a directory that this user can make",
    )
}

/// Says so where another user owns the entry or may read it.
fn not_private(name: &'static str, path: &Path, found: &Metadata, mode: u32) -> Option<Finding> {
    let shown = path.display();
    if found.uid() != geteuid().as_raw() {
        return Some(Finding::bad(
            name,
            format!("{shown} belongs to another user (uid {})", found.uid()),
            format!(
                "chown it to the user who runs the gateway, or run gatewayctl as that user; now it is uid {}",
                geteuid()
            ),
        ));
    }
    if found.mode() & 0o077 != 0 {
        return Some(Finding::bad(
            name,
            format!("{shown} is open to other users (mode {:o})", found.mode() & 0o7777),
            format!("chmod {mode:o} '{shown}'"),
        ));
    }
    None
}

/// Entries of the state directory itself that other users may read: a sign of a copy or a wrong umask.
fn open_entries(state: &Path) -> Option<Finding> {
    let open: Vec<String> = fs::read_dir(state)
        .ok()?
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|m| !m.is_symlink() && m.mode() & 0o077 != 0))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if open.is_empty() {
        return None;
    }
    let named = open.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    Some(Finding::bad(
        "state permissions",
        format!("{} entries are open to other users: {named}", open.len()),
        format!("chmod -R go= '{}'", state.display()),
    ))
}

/// The bearer token's file.
pub(super) fn token(config: &Config, running: bool) -> Finding {
    const NAME: &str = "token";
    let path = config.state.join("token");
    let shown = path.display();
    match fs::symlink_metadata(&path) {
        Ok(found) => {
            if let Some(finding) = not_private(NAME, &path, &found, 0o600) {
                return finding;
            }
            let whole = fs::read_to_string(&path)
                .is_ok_and(|t| t.trim().len() == 64 && t.trim().bytes().all(|b| b.is_ascii_hexdigit()));
            if whole {
                Finding::good(NAME, format!("in {shown}"))
            } else {
                Finding::bad(
                    NAME,
                    format!("{shown} does not hold 64 hex digits"),
                    format!("rm '{shown}', restart the gateway, and give ChatGPT the new token"),
                )
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && running => Finding::bad(
            NAME,
            format!("{shown} is gone while the gateway runs"),
            "restart the gateway: it makes a new one; then give ChatGPT the new token",
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Finding::good(NAME, format!("{shown} will be made at the first start"))
        }
        Err(error) => Finding::bad(
            NAME,
            format!("{shown} can't be looked at: {error}"),
            "mend the state directory first",
        ),
    }
}

/// Room for the ledger and for file versions.
pub(super) fn space(config: &Config) -> Finding {
    const NAME: &str = "disk space";
    let Some(there) = config.state.ancestors().find(|p| p.is_dir()) else {
        return Finding::bad(
            NAME,
            "no part of the state directory's path exists",
            "set CLAUDE_TOOLS_STATE_DIR",
        );
    };
    let free = match statvfs(there) {
        Ok(found) => wide(found.blocks_available()).saturating_mul(wide(found.fragment_size())),
        Err(error) => return Finding::care(NAME, format!("unknown: {error}"), "df says more"),
    };
    let said = format!("{} MiB free at {}", free >> 20, there.display());
    let mend = "free some space, or set CLAUDE_TOOLS_STATE_DIR to a larger disk";
    if free < TOO_LITTLE_BYTES {
        Finding::bad(NAME, said, mend)
    } else if free < LITTLE_BYTES {
        Finding::care(NAME, said, mend)
    } else {
        Finding::good(NAME, said)
    }
}

/// The fields' types differ between the systems.
fn wide(number: impl Into<u64>) -> u64 {
    number.into()
}
