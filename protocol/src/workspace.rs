//! The directory a session works in, and how it is recognised again.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{process_identity, timestamp::Timestamp};

/// What a directory is, beyond its name: a directory that was replaced under the same name differs here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootIdentity {
    /// Device number. Compared only within one boot: it may change over a reboot.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// The file system's own id, where it has one.
    pub filesystem: Option<String>,
    /// When the directory was made, where the file system remembers.
    pub born_at: Option<Timestamp>,
    /// The boot during which `device` was read.
    pub boot: String,
}

impl RootIdentity {
    /// The identity of the directory at `path`.
    ///
    /// # Errors
    /// Where there is none, it is no directory, or the system does not tell.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::from(&fs::metadata(path)?, nix::sys::statvfs::statvfs(path))
    }

    /// The identity of an opened directory.
    ///
    /// # Errors
    /// Where it is no directory, or the system does not tell.
    pub fn of(directory: &File) -> io::Result<Self> {
        Self::from(&directory.metadata()?, nix::sys::statvfs::fstatvfs(directory))
    }

    fn from(found: &Metadata, system: nix::Result<nix::sys::statvfs::Statvfs>) -> io::Result<Self> {
        if !found.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            filesystem: system.ok().map(|system| format!("{:x}", system.filesystem_id())),
            born_at: found.created().ok().map(moment),
            boot: process_identity::boot()?,
        })
    }

    /// Whether `now` is another directory than this one.
    #[must_use]
    pub fn is_other_than(&self, now: &Self) -> bool {
        let same_boot = self.boot == now.boot;
        let births = self.born_at.zip(now.born_at);
        if self.inode != now.inode || births.is_some_and(|(then, now)| then != now) {
            return true;
        }
        if same_boot && self.device != now.device {
            return true;
        }
        let moved =
            self.filesystem.as_ref().zip(now.filesystem.as_ref()).is_some_and(|(then, now)| then != now);
        // Some file systems make their id from the device number, which may change over a reboot: then an equal inode
        // that was born in the same millisecond says more.
        moved && (same_boot || births.is_none())
    }
}

fn moment(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How the session's root relates to the directory that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkspaceKind {
    /// Nothing below it is written.
    ReadOnly,
    /// Written in place.
    Direct,
    /// A Git worktree made by the gateway.
    Worktree {
        /// The worktree's own branch.
        branch: String,
        /// The commit it was made from, 40 or 64 hex digits.
        base_commit: String,
    },
}

/// Where a session works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// How the root relates to the source.
    #[serde(flatten)]
    pub kind: WorkspaceKind,
    /// The canonical directory that the session works in.
    pub root: PathBuf,
    /// The canonical directory that was asked for.
    pub source: PathBuf,
    /// The root's identity at the session's birth.
    pub identity: RootIdentity,
    /// What the owner should know about it (submodules, large files, …).
    #[serde(default)]
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> RootIdentity {
        RootIdentity {
            device: 1,
            inode: 2,
            filesystem: Some("a".into()),
            born_at: Some(Timestamp(5)),
            boot: "x".into(),
        }
    }

    #[test]
    fn what_makes_another_directory() {
        let before = identity();
        let after_boot = RootIdentity { boot: "y".into(), ..identity() };
        for (now, other) in [
            (identity(), false),
            (RootIdentity { inode: 3, ..identity() }, true),
            (RootIdentity { born_at: Some(Timestamp(6)), ..identity() }, true),
            (RootIdentity { born_at: None, ..identity() }, false),
            (RootIdentity { device: 9, ..identity() }, true),
            (RootIdentity { filesystem: Some("b".into()), ..identity() }, true),
            (RootIdentity { device: 9, ..after_boot.clone() }, false),
            (RootIdentity { device: 9, filesystem: Some("b".into()), ..after_boot.clone() }, false),
            (RootIdentity { filesystem: Some("b".into()), born_at: None, ..after_boot.clone() }, true),
            (RootIdentity { inode: 3, ..after_boot }, true),
        ] {
            assert_eq!(before.is_other_than(&now), other, "{now:?}");
        }
    }

    #[test]
    fn a_directory_is_the_same_by_its_name_and_by_its_handle() {
        let path = std::env::temp_dir();
        let by_name = RootIdentity::at(&path).unwrap();
        assert_eq!(RootIdentity::of(&File::open(&path).unwrap()).unwrap(), by_name);
        assert!(RootIdentity::at(&path.join("no such directory")).is_err());
    }
}
