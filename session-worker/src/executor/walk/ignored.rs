//! What `.gitignore` files name.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use nix::fcntl::OFlag;

/// Bytes of one `.gitignore` that count; the largest in use have some thousand lines.
const MOST_BYTES: u64 = 1024 * 1024;

/// The rules of a directory, and of those above it.
#[derive(Debug)]
pub(super) struct Rules {
    own: Gitignore,
    above: Option<Arc<Rules>>,
}

impl Rules {
    /// The rules of the directories above `directory`, up to the top of its repository.
    pub(super) fn above(directory: &Path) -> Arc<Self> {
        let mut between = Vec::new();
        let mut found = directory.join(".git").symlink_metadata().is_ok();
        for parent in directory.ancestors().skip(1) {
            if found {
                break;
            }
            between.push(parent);
            found = parent.join(".git").symlink_metadata().is_ok();
        }
        let mut rules = Arc::new(Rules { own: Gitignore::empty(), above: None });
        if found {
            for parent in between.into_iter().rev() {
                // A FIFO of this name must not hold the walk up.
                let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let file =
                    OpenOptions::new().read(true).custom_flags(flags.bits()).open(parent.join(".gitignore"));
                if let Ok(file) = file {
                    rules = Rules::of(parent, &file, Some(rules));
                }
            }
        }
        rules
    }

    /// The rules in `file`, the `.gitignore` of `directory`.
    pub(super) fn of(directory: &Path, file: &File, above: Option<Arc<Rules>>) -> Arc<Self> {
        let mut bytes = Vec::new();
        if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            // What can't be read names nothing.
            let _ = file.take(MOST_BYTES).read_to_end(&mut bytes);
        }
        let mut builder = GitignoreBuilder::new(directory);
        for line in String::from_utf8_lossy(&bytes).lines() {
            // A line that is no pattern names nothing.
            let _ = builder.add_line(None, line);
        }
        Arc::new(Rules { own: builder.build().unwrap_or_else(|_| Gitignore::empty()), above })
    }

    pub(super) fn ignores(&self, path: &Path, is_directory: bool) -> bool {
        let mut rules = Some(self);
        while let Some(level) = rules {
            match level.own.matched(path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = level.above.as_deref(),
            }
        }
        false
    }
}
