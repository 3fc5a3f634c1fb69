//! A file system that holds only what was listed, for a program that needs little.
//!
//! Invariant: what isn't listed has no name in here.

use nix::{
    libc,
    mount::{MntFlags, umount2},
    unistd::{chdir, pivot_root},
};
use std::{
    fs, io,
    os::{fd::AsFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use super::{
    landlock::DEVICES,
    mounts::{INERT, STAGE, attach, copy_of, fresh_proc, tiny_tmpfs},
    step::{Named, Step},
    sys,
};
use crate::spec::{AbsolutePath, Execution, SandboxSpec};

/// One thing of the old tree, to appear under the same name in the new one.
struct Piece {
    /// As it was asked for, where that is a link or leads through one.
    named: PathBuf,
    real: PathBuf,
    is_folder: bool,
    copy: std::os::fd::OwnedFd,
}

/// Builds the tree and makes it the root.
pub(super) fn build(spec: &SandboxSpec, readable: &[AbsolutePath], executables: &[PathBuf]) -> Step<()> {
    let libraries: &[AbsolutePath] = match &spec.execution {
        Execution::AnythingBut(_) => &[],
        Execution::OnlyItself(libraries) => libraries,
    };
    let read_only = INERT | libc::MOUNT_ATTR_RDONLY;
    let inert = read_only | libc::MOUNT_ATTR_NOEXEC;
    let mut wanted: Vec<(&Path, u64)> = Vec::new();
    wanted.extend(readable.iter().map(|path| (path.as_path(), inert)));
    wanted.extend(libraries.iter().map(|path| (path.as_path(), read_only)));
    wanted.extend(executables.iter().map(|path| (path.as_path(), read_only)));
    wanted.extend(spec.writable.iter().map(|path| (path.as_path(), INERT | libc::MOUNT_ATTR_NOEXEC)));
    wanted.extend(
        DEVICES.iter().map(|path| (Path::new(*path), libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC)),
    );
    // The copies are taken while the old tree is still in sight; the stage will hide a part of it.
    let mut pieces = wanted
        .into_iter()
        .filter_map(|(path, attributes)| piece(path, attributes).transpose())
        .collect::<Step<Vec<Piece>>>()?;
    // Outer folders first, else one would cover what was already laid inside it.
    pieces.sort_by(|one, other| one.real.cmp(&other.real));

    let stage = Path::new(STAGE);
    tiny_tmpfs(stage, "mode=755").step(|| "mounting the root of a small tree".into())?;
    pieces.iter().try_for_each(|piece| lay(stage, piece))?;
    fs::create_dir_all(stage.join("proc")).step(|| "making /proc in the small tree".into())?;
    fresh_proc(&stage.join("proc"))?;
    enter(stage)
}

fn piece(path: &Path, attributes: u64) -> Step<Option<Piece>> {
    let (Ok(real), Ok(metadata)) = (path.canonicalize(), path.metadata()) else { return Ok(None) };
    let copy = copy_of(&real)?;
    sys::add_mount_attributes(Some(copy.as_fd()), c"", attributes)
        .step(|| format!("making {} inert", path.display()))?;
    Ok(Some(Piece { named: path.to_path_buf(), real, is_folder: metadata.is_dir(), copy }))
}

fn below(stage: &Path, path: &Path) -> PathBuf {
    path.strip_prefix("/").map_or_else(|_| stage.to_path_buf(), |relative| stage.join(relative))
}

fn lay(stage: &Path, piece: &Piece) -> Step<()> {
    let at = below(stage, &piece.real);
    let made = || -> io::Result<()> {
        let named = below(stage, &piece.named);
        if !at.exists() {
            fs::create_dir_all(if piece.is_folder { &at } else { at.parent().unwrap_or(stage) })?;
            if !piece.is_folder {
                fs::File::create(&at)?;
            }
        }
        if piece.named != piece.real && named.symlink_metadata().is_err() {
            fs::create_dir_all(named.parent().unwrap_or(stage))?;
            symlink(&piece.real, &named)?;
        }
        Ok(())
    };
    made().step(|| format!("making a place for {} in the small tree", piece.real.display()))?;
    attach(&piece.copy, &at)
}

fn enter(stage: &Path) -> Step<()> {
    chdir(stage).step(|| "entering the small tree".into())?;
    pivot_root(".", ".").step(|| "making the small tree the root with pivot_root".into())?;
    umount2(".", MntFlags::MNT_DETACH).step(|| "letting go of the old root".into())?;
    chdir("/").step(|| "entering the new root".into())?;
    // The tmpfs alone: what is mounted in it has its attributes already, and the writable folder keeps its own.
    lock_root()
}

fn lock_root() -> Step<()> {
    nix::mount::mount(
        None::<&str>,
        "/",
        None::<&str>,
        nix::mount::MsFlags::MS_REMOUNT
            | nix::mount::MsFlags::MS_BIND
            | nix::mount::MsFlags::MS_RDONLY
            | nix::mount::MsFlags::MS_NOSUID
            | nix::mount::MsFlags::MS_NODEV
            | nix::mount::MsFlags::MS_NOEXEC,
        None::<&str>,
    )
    .step(|| "making the small tree read-only".into())
}
