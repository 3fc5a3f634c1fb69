//! Opening what a tool was asked for: once, following links, and judging the opened object rather than its name.
//!
//! Invariant: what a caller reads is the descriptor that was judged. The name is never resolved again.
//! Invariant: nothing here waits: a FIFO or a device is told from its metadata, and the open itself never blocks.

mod links;
mod suggest;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use nix::errno::Errno;
use protocol::failure::ToolErrorCode;
use sandbox_profiles::{Judgement, Protected, ProtectedBy};

use super::{display, outcome::ToolFailure};

/// What a tool can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Either.
    FileOrDirectory,
}

/// Something opened for reading and judged open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The descriptor.
    pub(crate) file: File,
    /// Where it really is.
    pub(crate) path: PathBuf,
    /// Its metadata when it was opened.
    pub(crate) metadata: Metadata,
}

/// Opens `path` for reading.
///
/// # Errors
/// Not found (with names that were perhaps meant), not the wanted kind, protected, or denied by the system.
pub(crate) fn open(path: &Path, wanted: Wanted, protected: &Protected) -> Result<Opened, ToolFailure> {
    // Opening some devices has effects of its own, so the kind is looked at before as well as after.
    let before = fs::metadata(path).map_err(|error| unopened(path, &error, protected))?;
    expect_kind(path, &before, wanted, protected)?;
    let file = links::open(path).map_err(|error| {
        if links::is_of_a_process(&error) {
            return is_protected(path, &ProtectedBy::Process);
        }
        unopened(path, &error, protected)
    })?;
    match protected.judge_opened(&file) {
        Ok(Judgement::Open) => {}
        Ok(Judgement::Protected(by)) => return Err(is_protected(path, &by)),
        Err(error) => {
            return Err(ToolFailure::new(
                ToolErrorCode::ProtectedPath,
                format!(
                    "opening {}: the system does not tell where it really is ({error}), so it counts as protected",
                    display::path(path)
                ),
            ));
        }
    }
    let metadata = file.metadata().map_err(|error| unopened(path, &error, protected))?;
    expect_kind(path, &metadata, wanted, protected)?;
    let real = sandbox_profiles::path_of(&file).map_err(|error| unopened(path, &error, protected))?;
    Ok(Opened { file, path: real, metadata })
}

fn expect_kind(
    path: &Path,
    metadata: &Metadata,
    wanted: Wanted,
    protected: &Protected,
) -> Result<(), ToolFailure> {
    let fits = match wanted {
        Wanted::File => metadata.is_file(),
        Wanted::Directory => metadata.is_dir(),
        Wanted::FileOrDirectory => metadata.is_file() || metadata.is_dir(),
    };
    if fits {
        return Ok(());
    }
    if let Some(by) = judge_name(path, protected) {
        return Err(is_protected(path, &by));
    }
    let (found, next) = match (kind(metadata), wanted) {
        ("a directory", _) => ("a directory", "FindFiles lists it"),
        ("a regular file", _) => ("a regular file", "give the directory it is in"),
        (other, _) => (other, "only regular files and directories are opened"),
    };
    let wanted = match wanted {
        Wanted::File => "a regular file",
        Wanted::Directory => "a directory",
        Wanted::FileOrDirectory => "a regular file or directory",
    };
    Err(ToolFailure::new(
        ToolErrorCode::NotRegular,
        format!("opening {}: it is {found}, not {wanted}; {next}", display::path(path)),
    ))
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "a directory"
    } else if kind.is_file() {
        "a regular file"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_block_device() || kind.is_char_device() {
        "a device"
    } else {
        "something else"
    }
}

/// Judges a path that could not be opened by its name, as written and as far as it resolves.
fn judge_name(path: &Path, protected: &Protected) -> Option<ProtectedBy> {
    let resolved = path.ancestors().find_map(|ancestor| {
        let rest = path.strip_prefix(ancestor).ok()?;
        let real = ancestor.canonicalize().ok()?;
        Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
    });
    [Some(path.to_path_buf()), resolved].into_iter().flatten().find_map(|name| {
        match protected.judge(&name, None) {
            Judgement::Open => None,
            Judgement::Protected(by) => Some(by),
        }
    })
}

fn is_protected(path: &Path, by: &ProtectedBy) -> ToolFailure {
    let why = match by {
        ProtectedBy::Path(_) => "it is a credential store or belongs to the gateway",
        ProtectedBy::HardLink => "it is another name of a protected file",
        ProtectedBy::TooManyToCompare => {
            "it has several names, and the protected stores are too large to rule out that one of them is there"
        }
        ProtectedBy::Process => "it belongs to a process",
    };
    ToolFailure::new(
        ToolErrorCode::ProtectedPath,
        format!("opening {}: {why}; no tool shows it, go on without it", display::path(path)),
    )
}

fn unopened(path: &Path, error: &io::Error, protected: &Protected) -> ToolFailure {
    if let Some(by) = judge_name(path, protected) {
        return is_protected(path, &by);
    }
    let shown = display::path(path);
    let answer = error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
    if matches!(answer, Errno::ENOENT | Errno::ENOTDIR) {
        suggest::not_found(path, protected)
    } else if matches!(answer, Errno::EACCES | Errno::EPERM) {
        denied(&shown, error)
    } else if answer == Errno::ELOOP {
        ToolFailure::new(
            ToolErrorCode::NotFound,
            format!("opening {shown}: its symbolic links lead in a circle; give the path of the file itself"),
        )
    } else if matches!(answer, Errno::ENAMETOOLONG | Errno::EILSEQ) {
        ToolFailure::new(
            ToolErrorCode::InvalidArgument,
            format!("opening {shown}: the system takes no path or name of this length or form"),
        )
    } else {
        ToolFailure::new(
            ToolErrorCode::DeniedBySystem,
            format!("opening {shown}: the operating system answered: {error}"),
        )
    }
}

/// A denial that is the operating system's own.
fn denied(shown: &str, error: &io::Error) -> ToolFailure {
    let mend = if cfg!(target_os = "macos") {
        "its owner can grant access in System Settings > Privacy & Security, or with chmod"
    } else {
        "its owner can grant access with chmod or chown"
    };
    ToolFailure::new(
        ToolErrorCode::DeniedBySystem,
        format!("opening {shown}: the operating system denies it ({error}), not the gateway; {mend}"),
    )
}

/// A read of an opened file that failed.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> ToolFailure {
    ToolFailure::new(
        ToolErrorCode::DeniedBySystem,
        format!("reading {}: the operating system answered: {error}", display::path(path)),
    )
}
