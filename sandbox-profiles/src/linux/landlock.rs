//! The second layer: Landlock, by listing what may be read.
//!
//! Landlock can't subtract. So beside each ancestor of a protected path its siblings are allowed one by one, and
//! what isn't listed, or appears later beside them, stays closed, even where a mask was replaced by a rename.
//!
//! Invariant: a protected path, and everything made under its name after launch, has no rule.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use super::sys;
use crate::spec::{AbsolutePath, Execution, Network, Readable, SandboxSpec};

/// Oldest ABI that holds the layer's own promises: reading and executing by path, no link or rename between
/// directories. What newer ones add (truncation, TCP, devices, scopes) is also held by the other two layers.
pub(super) const OLDEST_ABI: u32 = 2;

/// Device files that every program may use.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

fn known(abi: u32) -> ABI {
    match abi {
        0..=2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6.. => ABI::V6,
    }
}

/// What one launch adds to the description: the files that were found to be its program and loader, and its port.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) executables: Vec<PathBuf>,
    pub(super) port: Option<u16>,
}

struct Rules {
    ruleset: RulesetCreated,
    all: BitFlags<AccessFs>,
}

impl Rules {
    fn begin() -> io::Result<(Self, ABI)> {
        let found = sys::landlock_abi()?;
        if found < OLDEST_ABI {
            return Err(io::Error::from_raw_os_error(nix::libc::ENOSYS));
        }
        let abi = known(found);
        let all = AccessFs::from_all(abi);
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(all)
            .map_err(io::Error::other)?;
        let network = AccessNet::from_all(abi);
        if !network.is_empty() {
            ruleset = ruleset.handle_access(network).map_err(io::Error::other)?;
        }
        let scopes = Scope::from_all(abi);
        if !scopes.is_empty() {
            ruleset = ruleset.scope(scopes).map_err(io::Error::other)?;
        }
        let ruleset = ruleset.create().map_err(io::Error::other)?;
        Ok((Rules { ruleset, all }, abi))
    }

    /// Allows `access` at and below `path`; a path that is gone, or that this user can't reach, needs no rule.
    fn allow(self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<Self> {
        let is_folder = path.is_dir();
        self.allow_known(path, access, is_folder)
    }

    fn allow_known(mut self, path: &Path, access: BitFlags<AccessFs>, is_folder: bool) -> io::Result<Self> {
        let Ok(handle) = PathFd::new(path) else { return Ok(self) };
        let access = if is_folder { access } else { access & AccessFs::from_file(ABI::V6) };
        let rule = PathBeneath::new(handle, access & self.all);
        self.ruleset = self.ruleset.add_rule(rule).map_err(io::Error::other)?;
        Ok(self)
    }

    fn allow_each<'a>(
        self,
        paths: impl IntoIterator<Item = &'a Path>,
        access: BitFlags<AccessFs>,
    ) -> io::Result<Self> {
        paths.into_iter().try_fold(self, |rules, path| rules.allow(path, access))
    }
}

/// Closes this process in.
pub(super) fn restrict(spec: &SandboxSpec, found: &Found) -> io::Result<()> {
    let (mut rules, abi) = Rules::begin()?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = AccessFs::ReadFile | AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    rules = rules.allow_each(DEVICES.iter().map(Path::new), device)?;
    let mut written = rules.all & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    match &spec.readable {
        Readable::Everything => {
            rules = rules.allow(Path::new("/"), AccessFs::ReadDir.into())?;
            let mut open = Vec::new();
            siblings(Path::new("/"), &Hidden::of(spec), &mut open);
            for sibling in open {
                rules = rules.allow_known(&sibling.path, run | read, sibling.is_folder)?;
            }
            let own = ["/dev/shm", "/dev/pts", "/dev/ptmx"].map(Path::new);
            rules = rules.allow_each(own, written | AccessFs::IoctlDev)?;
        }
        Readable::Only(paths) => {
            rules = rules.allow_each(paths.iter().map(AbsolutePath::as_path), read)?;
            rules = rules.allow(Path::new("/proc"), read)?;
        }
    }
    match &spec.execution {
        Execution::AnythingBut(_) => {}
        Execution::OnlyItself(libraries) => {
            written &= !BitFlags::from(AccessFs::Execute);
            rules = rules.allow_each(libraries.iter().map(AbsolutePath::as_path), read)?;
            rules = rules.allow_each(found.executables.iter().map(PathBuf::as_path), run)?;
        }
    }
    rules = rules.allow_each(spec.writable.iter().map(AbsolutePath::as_path), written)?;
    let mut ruleset = rules.ruleset;
    if let (Network::LoopbackListener { .. }, Some(port)) = (spec.network, found.port)
        && !AccessNet::from_all(abi).is_empty()
    {
        ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp)).map_err(io::Error::other)?;
    }
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(io::Error::from_raw_os_error(nix::libc::ENOSYS))
        }
    }
}

/// The hidden paths, and every folder above one of them; looked up once for each sibling.
struct Hidden<'a> {
    paths: HashSet<&'a Path>,
    above: HashSet<&'a Path>,
}

impl<'a> Hidden<'a> {
    fn of(spec: &'a SandboxSpec) -> Self {
        let paths: HashSet<&Path> = spec.hidden().map(AbsolutePath::as_path).collect();
        let above = paths.iter().flat_map(|path| path.ancestors().skip(1)).collect();
        Hidden { paths, above }
    }
}

struct Sibling {
    path: PathBuf,
    is_folder: bool,
}

/// Lists what must be allowed so that everything but the hidden paths is open. Links lead to something that is
/// listed itself; device files are allowed by name alone.
fn siblings(directory: &Path, hidden: &Hidden<'_>, open: &mut Vec<Sibling>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        let special = kind.is_block_device() || kind.is_char_device() || kind.is_fifo() || kind.is_socket();
        let skipped = kind.is_symlink() || special || path == Path::new("/dev");
        if skipped || hidden.paths.contains(path.as_path()) {
            continue;
        }
        if kind.is_dir() && hidden.above.contains(path.as_path()) {
            siblings(&path, hidden, open);
        } else {
            open.push(Sibling { path, is_folder: kind.is_dir() });
        }
    }
}
