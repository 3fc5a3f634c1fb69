//! The first layer: what the file system looks like from inside.
//!
//! Either the whole tree, read-only, with an empty folder or file over each protected path, or a new tree that holds
//! only what was listed.
//!
//! Invariant: masks are laid last, so that nothing that is mounted back uncovers one.

use nix::{
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::Mode,
};
use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::{Path, PathBuf},
};

use super::{
    landlock::DEVICES,
    small_root,
    step::{Named, Step},
    sys,
};
use crate::{
    error::Feature,
    spec::{AbsolutePath, Readable, SandboxSpec},
};

/// A folder that exists on every Linux and is mounted anew anyway: where things are put together before they move.
pub(super) const STAGE: &str = "/proc";

/// Memory that `/dev/shm` of one cage may take.
const SHARED_MEMORY: &str = "size=512m,mode=1777";

/// Flags of everything in a cage that isn't a device file.
pub(super) const INERT: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = INERT | libc::MOUNT_ATTR_RDONLY;

/// Makes this mount namespace the cage's; runs as the first process of its pid namespace.
pub(super) fn build(spec: &SandboxSpec, executables: &[PathBuf]) -> Step<()> {
    mount_plain(None, Path::new("/"), "", MsFlags::MS_REC | MsFlags::MS_PRIVATE)
        .needs(Feature::Namespaces, || "making the mount namespace private".into())?;
    match &spec.readable {
        Readable::Everything => whole_tree(spec),
        Readable::Only(paths) => small_root::build(spec, paths, executables),
    }
}

fn whole_tree(spec: &SandboxSpec) -> Step<()> {
    // Copies are taken before the tree is locked: what is moved back keeps being writable, or a device.
    let devices = copies(DEVICES.iter().map(Path::new).filter(|path| path.exists()))?;
    let writable = copies(spec.writable.iter().map(AbsolutePath::as_path))?;
    add_attributes(Path::new("/"), READ_ONLY)
        .needs(Feature::MountApi, || "making / read-only with mount_setattr".into())?;
    for (path, copy) in &devices {
        attach(copy, path)?;
    }
    own_terminals_and_memory()?;
    for (path, copy) in &writable {
        sys::add_mount_attributes(Some(copy.as_fd()), c"", INERT)
            .step(|| format!("making {} inert", path.display()))?;
        attach(copy, path)?;
    }
    let hidden: Vec<&AbsolutePath> = spec.hidden().collect();
    mask(&hidden)?;
    fresh_proc(Path::new("/proc"))
}

fn copies<'a>(paths: impl Iterator<Item = &'a Path>) -> Step<Vec<(PathBuf, OwnedFd)>> {
    paths.map(|path| Ok((path.to_path_buf(), copy_of(path)?))).collect()
}

pub(super) fn copy_of(path: &Path) -> Step<OwnedFd> {
    c_path(path)
        .and_then(|path| sys::clone_mounts(&path))
        .needs(Feature::MountApi, || format!("copying the mount of {} with open_tree", path.display()))
}

pub(super) fn attach(copy: &OwnedFd, path: &Path) -> Step<()> {
    c_path(path)
        .and_then(|path| sys::attach_mount(copy.as_fd(), &path))
        .step(|| format!("mounting on {} with move_mount", path.display()))
}

pub(super) fn add_attributes(path: &Path, attributes: u64) -> io::Result<()> {
    sys::add_mount_attributes(None, &c_path(path)?, attributes)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn mount_plain(kind: Option<&str>, at: &Path, options: &str, flags: MsFlags) -> io::Result<()> {
    Ok(mount(kind, at, kind, flags, Some(options))?)
}

/// A tmpfs of a few folders and files: nothing in a cage is kept in it.
pub(super) fn tiny_tmpfs(at: &Path, mode: &str) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount_plain(Some("tmpfs"), at, &format!("size=1m,{mode}"), flags)
}

/// A `/proc` that shows the cage's own processes.
pub(super) fn fresh_proc(at: &Path) -> Step<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
    mount_plain(Some("proc"), at, "", flags).needs(Feature::FreshProc, || "mounting a fresh /proc".into())
}

/// `/dev/shm` and terminals of the cage's own, where the system has them at all.
fn own_terminals_and_memory() -> Step<()> {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount_plain(Some("tmpfs"), shared, SHARED_MEMORY, flags).step(|| "mounting a /dev/shm".into())?;
    }
    let (terminals, opener) = (Path::new("/dev/pts"), Path::new("/dev/ptmx"));
    if terminals.is_dir() && opener.exists() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        mount_plain(Some("devpts"), terminals, "newinstance,ptmxmode=0666,mode=620", flags)
            .step(|| "mounting a /dev/pts".into())?;
        attach(&copy_of(Path::new("/dev/pts/ptmx"))?, opener)?;
    }
    Ok(())
}

/// Covers each path with something empty that nobody may open.
fn mask(hidden: &[&AbsolutePath]) -> Step<()> {
    let existing: Vec<(&Path, bool)> = hidden
        .iter()
        .filter(|path| !path.starts_with("/proc"))
        .filter_map(|path| fs::symlink_metadata(path).ok().map(|metadata| (path.as_path(), metadata)))
        // A link is judged by where it leads, which is in the list itself; what this user can't reach stays closed.
        .filter(|(_, metadata)| !metadata.is_symlink())
        .map(|(path, metadata)| (path, metadata.is_dir()))
        .collect();
    if existing.is_empty() {
        return Ok(());
    }
    let stage = Path::new(STAGE);
    let (folder, file) = (stage.join("folder"), stage.join("file"));
    let laid = || -> io::Result<()> {
        tiny_tmpfs(stage, "mode=700")?;
        fs::create_dir(&folder)?;
        fs::write(&file, b"")?;
        for path in [&folder, &file] {
            fs::set_permissions(path, fs::Permissions::from_mode(Mode::empty().bits()))?;
        }
        add_attributes(stage, libc::MOUNT_ATTR_RDONLY)
    };
    laid().step(|| "preparing the masks of protected paths".into())?;
    for (path, is_folder) in existing {
        attach(&copy_of(if is_folder { &folder } else { &file })?, path)?;
    }
    umount2(stage, MntFlags::MNT_DETACH).step(|| "clearing the stage of the masks".into())
}
