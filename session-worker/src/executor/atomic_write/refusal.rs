//! Why a file was not written.
//!
//! Invariant: whoever gets a [`Refusal`] finds every file as it was.

use std::{io, path::PathBuf};

use protocol::{digest::Digest, failure::ToolErrorCode};

/// What stands where a regular file was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherKind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe with a name.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
    /// Something that this code does not know.
    Unknown,
}

impl OtherKind {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Unknown => "no regular file",
        }
    }
}

/// Why a file was not written. Paths are absolute, as the root and the target name them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The path is not below the session's root.
    #[error("{path:?} is not below the session's directory {root:?}; name a file inside it")]
    OutsideRoot {
        /// The path.
        path: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// The path is no plain path of a file.
    #[error("the path {path:?} can't name a file to write: {why}")]
    BadPath {
        /// The path.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// A component is a repository's own directory or file.
    #[error(
        "{path:?} lies in a repository's `.git`, which tools never write; use git itself, outside the session"
    )]
    IntoGit {
        /// The path.
        path: PathBuf,
    },
    /// A directory on the way is a symbolic link.
    #[error(
        "{path:?} is a symbolic link, and files are not written through one; name the directory it points to"
    )]
    ThroughSymlink {
        /// The link.
        path: PathBuf,
    },
    /// A directory on the way is no directory.
    #[error("{path:?} is not a directory, so nothing can be written below it; choose another path")]
    NotADirectory {
        /// What is in the way.
        path: PathBuf,
    },
    /// The file is not a regular file.
    #[error("{path:?} is {}, and only regular files are written; choose another path", kind.name())]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: OtherKind,
    },
    /// The file has other names, whose content would change or be split off.
    #[error(
        "{path:?} has {links} hard links, so writing it would change or split off files elsewhere; \
         copy it to a file of its own first"
    )]
    SeveralLinks {
        /// The path.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// The path is protected.
    #[error(
        "{path:?} is protected: credentials and the gateway's own files are never written; leave it to its owner"
    )]
    Protected {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than what is edited.
    #[error(
        "{path:?} has {bytes} bytes, and files of at most {limit} are written; split it or use a command"
    )]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The bound.
        limit: usize,
    },
    /// The file is not what it was when it was seen.
    #[error(
        "{path:?} has changed since it was seen: {}; read it again and decide on what it holds now",
        now.map_or("it is gone or replaced".to_owned(), |digest| format!("its SHA-256 is now {digest}"))
    )]
    Stale {
        /// The path.
        path: PathBuf,
        /// What it holds now; none where it is gone, replaced or still changing.
        now: Option<Digest>,
    },
    /// The root's path names another directory than at the session's start.
    #[error(
        "the session's directory {root:?} was moved or replaced, so nothing is written any more; stop the session"
    )]
    RootReplaced {
        /// The root.
        root: PathBuf,
    },
    /// A directory on the way was moved or replaced during the write.
    #[error(
        "the directory of {path:?} was moved or replaced while it was written; look where it is and try again"
    )]
    Moved {
        /// The path.
        path: PathBuf,
    },
    /// The staged file is not the one that was staged.
    #[error("the staged content of {path:?} was taken away or replaced by another program; try again")]
    StagedGone {
        /// The path.
        path: PathBuf,
    },
    /// What was recorded is another write.
    #[error("the record names another write than the one staged for {path:?}; nothing was written")]
    NotRecorded {
        /// The path.
        path: PathBuf,
    },
    /// The operating system said no.
    #[error("{attempt} {path:?} failed: the operating system says: {source}")]
    System {
        /// What was attempted, as "creating a file beside".
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl Refusal {
    /// The stable code that the tool's result carries.
    pub(crate) fn code(&self) -> ToolErrorCode {
        match self {
            Self::OutsideRoot { .. } | Self::ThroughSymlink { .. } => ToolErrorCode::OutsideRoot,
            Self::BadPath { .. } => ToolErrorCode::InvalidArgument,
            Self::IntoGit { .. } | Self::Protected { .. } => ToolErrorCode::ProtectedPath,
            Self::NotADirectory { .. } | Self::NotRegular { .. } | Self::SeveralLinks { .. } => {
                ToolErrorCode::NotRegular
            }
            Self::TooLarge { .. } => ToolErrorCode::TooLarge,
            Self::Stale { .. } => ToolErrorCode::StaleRead,
            Self::RootReplaced { .. } | Self::Moved { .. } | Self::StagedGone { .. } => {
                ToolErrorCode::NotApplied
            }
            Self::NotRecorded { .. } => ToolErrorCode::Internal,
            Self::System { source, .. } => of_system(source),
        }
    }
}

fn of_system(error: &io::Error) -> ToolErrorCode {
    let denials = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    if denials.contains(&error.kind()) {
        ToolErrorCode::DeniedBySystem
    } else if error.kind() == io::ErrorKind::NotFound {
        ToolErrorCode::NotFound
    } else {
        ToolErrorCode::NotApplied
    }
}
