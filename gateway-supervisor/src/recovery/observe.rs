//! The look at what is there: the content of the file that a prepared write was to change.
//!
//! Invariant: only a regular file that is reached without a symbolic link below the root is read.

use std::{fs::File, io, io::Read, os::unix::fs::OpenOptionsExt, path::Path};

use protocol::{
    action::{Effect, Prepared},
    digest::Hasher,
    workspace::Workspace,
};

use super::resolve::{Observed, resolve};
use crate::{session::state::Findings, workspace::identity};

/// Looks at each prepared action and says what it did. Blocks on the file system.
pub(crate) fn findings(workspace: &Workspace, prepared: &[Prepared]) -> Findings {
    let replaced = identity::difference(&workspace.root, &workspace.identity);
    prepared
        .iter()
        .map(|action| {
            let observed = match &replaced {
                Some(reason) => Observed::Unreadable(reason.clone()),
                None => observe(&workspace.root, action),
            };
            (action.action_id, resolve(action, &observed))
        })
        .collect()
}

fn observe(root: &Path, prepared: &Prepared) -> Observed {
    match &prepared.effect {
        Effect::Write(write) => file(root, &write.path),
        Effect::Remove(removal) => file(root, &removal.path),
        Effect::Command { .. } | Effect::Subsession { .. } => Observed::Nothing,
    }
}

/// What stands at a path below the root. Blocks on the file system.
pub(crate) fn file(root: &Path, relative: &Path) -> Observed {
    match digest(root, relative) {
        Ok(observed) => observed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Observed::Absent,
        Err(error) => Observed::Unreadable(error.kind().to_string()),
    }
}

fn digest(root: &Path, relative: &Path) -> io::Result<Observed> {
    let mut path = root.to_owned();
    for part in relative.components() {
        let std::path::Component::Normal(name) = part else {
            return Ok(Observed::Unreadable("its recorded path leaves the root".to_owned()));
        };
        path.push(name);
        if path.symlink_metadata()?.is_symlink() {
            return Ok(Observed::Unreadable("a symbolic link stands in its path".to_owned()));
        }
    }
    // A FIFO would block the open.
    let mut file =
        File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path)?;
    if !file.metadata()?.is_file() {
        return Ok(Observed::Unreadable("it is not a regular file".to_owned()));
    }
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Observed::Content(hasher.finish())),
            got => hasher.update(&buffer[..got]),
        }
    }
}
