//! Starting programs behind the walls.
//!
//! The program that embeds this crate calls [`helper_main_if_asked`] first thing in `main`, while it has one thread:
//! cages are built by that same program, executed again as a helper. Every call here blocks for a few milliseconds,
//! [`Caged::wait`] for as long as the program runs; asynchronous callers use a blocking task.
//!
//! Invariant: a program starts only after every wall was reported to stand.

use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, PipeReader, PipeWriter},
    net::TcpListener,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    error::WallError,
    os,
    spec::{AbsolutePath, Network, SandboxSpec},
};

/// The hidden first argument by which the embedding program knows that it is the helper.
pub const HELPER_ARGUMENT: &str = "--build-cages";

/// Becomes the helper if this process was started as one; call it first thing in `main`, before any thread starts.
pub fn helper_main_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|first| first == HELPER_ARGUMENT) {
        helper_main();
    }
}

/// Is the helper. Never returns.
pub fn helper_main() -> ! {
    let argument = std::env::args().nth(2).unwrap_or_default();
    std::process::exit(os::helper(&argument))
}

/// The program that is executed as the helper: the embedding program itself.
#[derive(Debug, Clone)]
pub struct Helper(PathBuf);

impl Helper {
    /// This very program, even where its file was replaced meanwhile.
    ///
    /// # Errors
    /// Where the system can't tell this program's file.
    pub fn this_program() -> io::Result<Self> {
        if cfg!(target_os = "linux") {
            return Ok(Helper(PathBuf::from("/proc/self/exe")));
        }
        std::env::current_exe().map(Helper)
    }

    /// Another program that calls [`helper_main_if_asked`].
    #[must_use]
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Helper(program.into())
    }

    pub(crate) fn program(&self) -> &Path {
        &self.0
    }
}

/// What is started in a cage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The file to execute; nothing is looked up.
    pub path: AbsolutePath,
    /// All arguments, the program's own name first.
    pub arguments: Vec<OsString>,
    /// Where it starts.
    pub directory: AbsolutePath,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// The caged end of the standard streams.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// How a caged program ended. By then no process of its cage is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Ending {
    /// It ended by itself with this exit code.
    Exited(i32),
    /// It was ended by this signal.
    Signaled(i32),
    /// [`Caged::kill_tree`] ended it.
    Killed,
    /// The cage was torn down from outside (its helper died) and nobody knows how the program ended.
    Lost,
}

/// What can be asked of a caged program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// SIGTERM to the program.
    Terminate,
    /// SIGINT to the program.
    Interrupt,
    /// SIGSTOP to everything in the cage.
    Pause,
    /// SIGCONT to everything in the cage.
    Resume,
}

/// A program that runs behind the walls. Dropping it ends everything in its cage, without waiting for it.
#[derive(Debug)]
pub struct Caged {
    /// Writes to its standard input, where that was asked for; take and drop it to close that.
    pub stdin: Option<PipeWriter>,
    /// Its standard output. At the end no process of the cage holds the other end, so it always comes to an end.
    pub stdout: Option<PipeReader>,
    /// Its standard error, likewise.
    pub stderr: Option<PipeReader>,
    cage: os::Cage,
    /// A keeper of its own, where it has one; it ends after the cage.
    _keeper: Option<os::Keeper>,
}

impl Caged {
    /// The program's process id as seen from here. It is the program's only until [`Caged::wait`] has returned.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.cage.pid()
    }

    /// Waits until the program has ended and the last process of its cage is gone.
    ///
    /// # Errors
    /// Where the helper can't be heard.
    pub fn wait(&self) -> io::Result<Ending> {
        loop {
            if let Some(ending) = self.cage.wait(None)? {
                return Ok(ending);
            }
        }
    }

    /// Like [`Caged::wait`], until `deadline` at most; `None` means that it still runs.
    ///
    /// # Errors
    /// Where the helper can't be heard.
    pub fn wait_until(&self, deadline: Instant) -> io::Result<Option<Ending>> {
        self.cage.wait(Some(deadline))
    }

    /// Ends the program and every descendant, whatever they did to escape; [`Caged::wait`] tells when they are gone.
    ///
    /// # Errors
    /// Where the helper can't be reached.
    pub fn kill_tree(&self) -> io::Result<()> {
        self.cage.kill_tree()
    }

    /// Passes a request on; a program that has ended is past it, which is no error.
    ///
    /// # Errors
    /// Where the helper can't be reached.
    pub fn ask(&self, request: Request) -> io::Result<()> {
        self.cage.ask(request)
    }
}

/// Where a session's commands are started. Opened once per session: it keeps what is dear to make and holds nothing
/// that a command could leave behind. Dropping it ends all its commands.
#[derive(Debug)]
pub struct CommandCages {
    keeper: os::Keeper,
}

impl CommandCages {
    /// Starts the helper.
    ///
    /// # Errors
    /// [`WallError::Unsupported`] where this machine refuses the namespaces.
    pub fn open(helper: &Helper) -> Result<Self, WallError> {
        let (keeper, _) = os::Keeper::start(helper, Network::Nothing)?;
        Ok(CommandCages { keeper })
    }

    /// Builds every wall of `spec` and starts nothing.
    ///
    /// # Errors
    /// As [`spawn_command`].
    pub fn rehearse(&self, spec: &SandboxSpec) -> Result<(), WallError> {
        spec.validate()?;
        let (streams, _) = pipes().map_err(|source| WallError::Helper { asking: "for pipes", source })?;
        let cage = self.keeper.spawn(spec, None, &streams)?;
        cage.wait(None).map_err(|source| WallError::Helper { asking: "how a rehearsal ended", source })?;
        Ok(())
    }
}

/// Starts a command in a cage of its own.
///
/// # Errors
/// [`WallError::Spec`] for a description that contradicts itself, [`WallError::Unsupported`] and
/// [`WallError::Build`] where a wall can't be built, [`WallError::Exec`] where the program can't be executed,
/// [`WallError::Helper`] where the helper is gone: open new cages.
pub fn spawn_command(
    cages: &CommandCages,
    spec: &SandboxSpec,
    program: &Program,
) -> Result<Caged, WallError> {
    start(&cages.keeper, spec, program, Input::Typed)
}

/// Like [`spawn_command`], with nothing to read: `/dev/null` rather than a pipe that ends at once, for programs such as
/// `rg` take a pipe for what they should search.
///
/// # Errors
/// As [`spawn_command`].
pub fn spawn_command_without_input(
    cages: &CommandCages,
    spec: &SandboxSpec,
    program: &Program,
) -> Result<Caged, WallError> {
    start(&cages.keeper, spec, program, Input::Nothing)
}

/// Starts Claude Code in a cage whose only network is the returned listener: what connects to it is that process.
/// With port 0 in `spec`, ask the listener for the port before you write it into the program's environment with
/// [`ClaudeCage`].
///
/// # Errors
/// As [`spawn_command`].
pub fn spawn_claude(
    helper: &Helper,
    spec: &SandboxSpec,
    program: &Program,
) -> Result<(Caged, TcpListener), WallError> {
    let (cage, listener) = ClaudeCage::open(helper, spec.network)?;
    Ok((cage.spawn(spec, program)?, listener))
}

/// A network with one listener, made before the program that is to use it, so that its port can be told.
#[derive(Debug)]
pub struct ClaudeCage {
    keeper: os::Keeper,
}

impl ClaudeCage {
    /// Makes the network and its listener.
    ///
    /// # Errors
    /// As [`spawn_command`].
    pub fn open(helper: &Helper, network: Network) -> Result<(Self, TcpListener), WallError> {
        match os::Keeper::start(helper, network)? {
            (keeper, Some(listener)) => Ok((ClaudeCage { keeper }, listener)),
            (_, None) => Err(WallError::Helper {
                asking: "for a loopback listener",
                source: io::Error::new(io::ErrorKind::InvalidInput, "the description has no network"),
            }),
        }
    }

    /// Starts the program; the network ends with it.
    ///
    /// # Errors
    /// As [`spawn_command`].
    pub fn spawn(self, spec: &SandboxSpec, program: &Program) -> Result<Caged, WallError> {
        let mut caged = start(&self.keeper, spec, program, Input::Typed)?;
        caged._keeper = Some(self.keeper);
        Ok(caged)
    }
}

/// What a program's standard input is.
#[derive(Clone, Copy)]
enum Input {
    Typed,
    Nothing,
}

fn start(
    keeper: &os::Keeper,
    spec: &SandboxSpec,
    program: &Program,
    input: Input,
) -> Result<Caged, WallError> {
    spec.validate()?;
    let for_pipes = |source| WallError::Helper { asking: "for pipes", source };
    let (mut streams, (stdin, stdout, stderr)) = pipes().map_err(for_pipes)?;
    let stdin = match input {
        Input::Typed => Some(stdin),
        Input::Nothing => {
            streams.stdin = File::open("/dev/null").map_err(for_pipes)?.into();
            None
        }
    };
    let cage = keeper.spawn(spec, Some(program), &streams)?;
    Ok(Caged { stdin, stdout: Some(stdout), stderr: Some(stderr), cage, _keeper: None })
}

type OurEnds = (PipeWriter, PipeReader, PipeReader);

fn pipes() -> io::Result<(Streams, OurEnds)> {
    let (their_stdin, stdin) = io::pipe()?;
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    let streams =
        Streams { stdin: their_stdin.into(), stdout: their_stdout.into(), stderr: their_stderr.into() };
    Ok((streams, (stdin, stdout, stderr)))
}

/// The folders in which a program's loader finds its libraries, and what else it reads to start: for
/// [`SandboxSpec::claude`].
///
/// # Errors
/// Where the program can't be read.
pub fn libraries_of(program: &Path) -> io::Result<Vec<AbsolutePath>> {
    let Some(loader) = os::interpreter(program)? else { return Ok(Vec::new()) };
    let real = loader.canonicalize()?;
    let around = real.parent().map(Path::to_path_buf);
    let found =
        [around, Some(loader), Some("/etc/ld.so.cache".into()), Some("/usr/lib/libstdc++.so.6".into())];
    Ok(found.into_iter().flatten().filter_map(|path| AbsolutePath::new(path).ok()).collect())
}

/// Leaves one wall out of every cage opened from now on: only in a debug build that measures what each wall stops.
#[cfg(all(feature = "measure-single-walls", target_os = "linux"))]
pub fn leave_out(wall: &str) {
    os::leave_out(wall);
}
