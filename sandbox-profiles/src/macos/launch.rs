//! The caller's side: renders the profile, starts a runner for each cage, and hears how it ends.
//!
//! Invariant: nothing is started without `/usr/bin/sandbox-exec` and its profile.
#![expect(clippy::disallowed_methods, reason = "the launcher of cages")]

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::{Ipv4Addr, Shutdown, TcpListener},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use super::{
    runner, sys,
    wire::{self, Order, Report},
};
use crate::{
    error::{Feature, WallError},
    hearing::{Heard, Hearing},
    launch::{Ending, HELPER_ARGUMENT, Helper, Program, Request, Streams},
    seatbelt,
    spec::{Network, Readable, SandboxSpec},
};

/// By this path alone: another program of that name would be no wall.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// The helper's main function: the process ends with its answer.
pub(crate) fn helper(_argument: &str) -> i32 {
    runner::run()
}

/// What cages of one kind share: the helper's path, and the port that Claude Code may reach.
#[derive(Debug)]
pub(crate) struct Keeper {
    helper: PathBuf,
    port: Option<u16>,
}

impl Keeper {
    pub(crate) fn start(helper: &Helper, network: Network) -> Result<(Self, Option<TcpListener>), WallError> {
        if !Path::new(SANDBOX_EXEC).exists() {
            return Err(WallError::Unsupported {
                feature: Feature::Seatbelt,
                found: format!("{SANDBOX_EXEC} is missing"),
                mend: "use a macOS that ships it (every release so far does)".into(),
            });
        }
        let listener = match network {
            Network::Nothing => None,
            Network::LoopbackListener { port } => {
                let failed =
                    |source| WallError::Build { step: format!("listening on 127.0.0.1:{port}"), source };
                Some(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?)
            }
        };
        let port =
            listener.as_ref().and_then(|listener| listener.local_addr().ok()).map(|address| address.port());
        Ok((Keeper { helper: helper.program().to_path_buf(), port }, listener))
    }

    pub(crate) fn spawn(
        &self,
        spec: &SandboxSpec,
        program: Option<&Program>,
        streams: &Streams,
    ) -> Result<Cage, WallError> {
        // A rehearsal runs the system's own `true` behind the profile.
        let path = program.map_or(Path::new("/usr/bin/true"), |program| program.path.as_path());
        if let Some(program) = program {
            executable(&program.path)
                .map_err(|source| WallError::Exec { program: path.to_path_buf(), source })?;
        }
        let profile = seatbelt::render(spec, path, self.port)?;
        let failed = |source| WallError::Helper { asking: "for a cage", source };
        let mut arguments = vec![SANDBOX_EXEC.into()];
        arguments.extend(profile.arguments());
        arguments.push(path.as_os_str().to_owned());
        arguments.extend(program.iter().flat_map(|program| program.arguments.iter().skip(1)).cloned());
        let order = Order {
            arguments,
            directory: program.map_or_else(|| "/".into(), |program| program.directory.as_os_str().to_owned()),
            environment: program.map(|program| program.environment.clone()).unwrap_or_default(),
            file_bytes: spec.limits.file_bytes,
            umask: match spec.readable {
                Readable::Everything => 0o022,
                Readable::Only(_) => 0o077,
            },
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let runner = Command::new(&self.helper)
            .arg(HELPER_ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(streams.stdout.try_clone().map_err(failed)?)
            .stderr(streams.stderr.try_clone().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let mut cage = Cage { hearing: Hearing::new(ours), pid: 0, runner: Mutex::new(runner) };
        let socket = cage.hearing.socket();
        send_descriptor(socket, &streams.stdin).and_then(|()| wire::write(socket, &order)).map_err(failed)?;
        match wire::read(socket).map_err(failed)? {
            Some(Report::Running(pid)) => {
                cage.pid = pid;
                Ok(cage)
            }
            Some(Report::Failed { step, errno }) => {
                Err(WallError::Build { step, source: io::Error::from_raw_os_error(errno) })
            }
            Some(Report::Exited(_) | Report::Signaled(_)) | None => {
                Err(failed(io::Error::from(io::ErrorKind::UnexpectedEof)))
            }
        }
    }
}

fn executable(path: &Path) -> io::Result<()> {
    Ok(nix::unistd::access(path, nix::unistd::AccessFlags::X_OK)?)
}

fn send_descriptor(socket: &UnixStream, descriptor: &OwnedFd) -> io::Result<()> {
    let beside = [descriptor.as_raw_fd()];
    let beside = [ControlMessage::ScmRights(&beside)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(b"i")], &beside, MsgFlags::empty(), None)?;
    Ok(())
}

/// Takes the descriptor that a caller sends before its order.
pub(super) fn receive_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty())?;
    let mut received = None;
    for beside in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = beside {
            received = descriptors.first().copied().map(sys::own);
        }
    }
    received.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

/// A cage that runs.
#[derive(Debug)]
pub(crate) struct Cage {
    hearing: Hearing<UnixStream>,
    pid: i32,
    runner: Mutex<Child>,
}

impl Cage {
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the tree of the cage is gone, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> io::Result<Option<Ending>> {
        self.hearing.wait(deadline, |socket| {
            let heard = hear(socket)?;
            if heard == Heard::Gone {
                self.runner.lock().unwrap_or_else(PoisonError::into_inner).wait()?;
            }
            Ok(heard)
        })
    }

    pub(crate) fn kill_tree(&self) -> io::Result<()> {
        self.hearing.kill_tree()
    }

    pub(crate) fn ask(&self, request: Request) -> io::Result<()> {
        match io::Write::write_all(&mut self.hearing.socket(), &[runner::byte_of(request)]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()), // it has ended
            other => other,
        }
    }
}

fn hear(socket: &UnixStream) -> io::Result<Heard> {
    Ok(match wire::read(socket)? {
        Some(Report::Exited(code)) => Heard::Ended(Ending::Exited(code)),
        Some(Report::Signaled(signal)) => Heard::Ended(Ending::Signaled(signal)),
        Some(Report::Failed { .. }) => Heard::Ended(Ending::Lost),
        Some(Report::Running(_)) => Heard::Otherwise,
        None => Heard::Gone,
    })
}

impl Drop for Cage {
    fn drop(&mut self) {
        // The runner ends its tree when this end is closed, and then itself; a moment's wait takes its exit status.
        // One that fails has told nobody, and there is nothing more to do.
        let _ = self.hearing.socket().shutdown(Shutdown::Both);
        let _ = self.runner.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }
}
