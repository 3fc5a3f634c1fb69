//! The caller's side: starts the keeper, orders cages from it, and hears how they end.
//!
//! Invariant: nothing is started unless every wall was reported to stand.
#![expect(clippy::disallowed_methods, reason = "the launcher of cages")]

use std::{
    io,
    net::TcpListener,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    diagnose, keeper,
    wire::{self, Ask, Order, Report, Walls},
};
use crate::{
    error::WallError,
    hearing::{Heard, Hearing, readable},
    launch::{Ending, HELPER_ARGUMENT, Helper, Program, Request, Streams},
    spec::{Network, SandboxSpec},
};

/// A helper that says nothing for so long is stuck; building takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The helper's main function: the process ends with its answer.
pub(crate) fn helper(argument: &str) -> i32 {
    keeper::run(argument)
}

/// A running keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// `None` only while it is being closed.
    socket: Option<OwnedFd>,
    process: Child,
    walls: Walls,
}

impl Keeper {
    /// Starts a keeper for a network; with a loopback listener its socket comes back.
    pub(crate) fn start(helper: &Helper, network: Network) -> Result<(Self, Option<TcpListener>), WallError> {
        let failed = |source| WallError::Helper { asking: "to start", source };
        let (ours, theirs) = wire::channel().map_err(failed)?;
        let port = match network {
            Network::Nothing => None,
            Network::LoopbackListener { port } => Some(port),
        };
        let process = Command::new(helper.program())
            .args([HELPER_ARGUMENT, &keeper::argument(port)])
            .env_clear()
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let keeper = Keeper { socket: Some(ours), process, walls: chosen_walls() };
        let mut message =
            keeper.socket().and_then(|socket| next(socket, Instant::now() + PATIENCE)).map_err(failed)?;
        match report_in(&message.bytes).map_err(failed)? {
            Some(Report::Ready) => Ok((keeper, message.descriptors.pop().map(TcpListener::from))),
            Some(other) => Err(refusal(other)),
            None => Err(failed(io::Error::from(io::ErrorKind::UnexpectedEof))),
        }
    }

    fn socket(&self) -> io::Result<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd).ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }

    /// Builds a cage and starts the program in it; without a program, builds it and lets it end.
    pub(crate) fn spawn(
        &self,
        spec: &SandboxSpec,
        program: Option<&Program>,
        streams: &Streams,
    ) -> Result<Cage, WallError> {
        let failed = |source| WallError::Helper { asking: "for a cage", source };
        let order = Order { spec: spec.clone(), program: program.cloned(), walls: self.walls };
        let order = wire::write_order(&order).map_err(failed)?;
        let (ours, theirs) = wire::channel().map_err(failed)?;
        wire::learn_senders(ours.as_fd()).map_err(failed)?;
        let descriptors = wire::numbers(&[&theirs, &streams.stdin, &streams.stdout, &streams.stderr, &order]);
        self.socket().and_then(|socket| wire::send(socket, b"o", &descriptors)).map_err(failed)?;
        drop(theirs);
        let mut pid = 0;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let message = next(ours.as_fd(), deadline).map_err(failed)?;
            match report_in(&message.bytes).map_err(failed)? {
                Some(Report::Walled) => {
                    pid = message.sender.map_or(0, nix::unistd::Pid::as_raw);
                    if program.is_none() {
                        break;
                    }
                }
                Some(Report::Running) => break,
                Some(Report::NotExecuted { errno }) => {
                    let program = program.map(|program| program.path.to_path_buf()).unwrap_or_default();
                    return Err(WallError::Exec { program, source: io::Error::from_raw_os_error(errno) });
                }
                Some(other) => return Err(refusal(other)),
                None => return Err(failed(io::Error::from(io::ErrorKind::UnexpectedEof))),
            }
        }
        Ok(Cage { hearing: Hearing::new(ours), pid })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.socket = None;
        // It ends by itself when its socket closes, after the last of its cages; this only takes its exit status.
        let _ = self.process.wait();
    }
}

/// A cage that runs.
#[derive(Debug)]
pub(crate) struct Cage {
    hearing: Hearing<OwnedFd>,
    pid: i32,
}

impl Cage {
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the last process of the cage is gone, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> io::Result<Option<Ending>> {
        self.hearing.wait(deadline, hear)
    }

    /// Ends everything in the cage; `wait` tells when it is gone.
    pub(crate) fn kill_tree(&self) -> io::Result<()> {
        self.hearing.kill_tree()
    }

    pub(crate) fn ask(&self, request: Request) -> io::Result<()> {
        let ask = match request {
            Request::Terminate => Ask::Terminate,
            Request::Interrupt => Ask::Interrupt,
            Request::Pause => Ask::Pause,
            Request::Resume => Ask::Resume,
        };
        match wire::send(self.hearing.socket().as_fd(), &[ask.byte()], &[]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()), // it has ended
            other => other,
        }
    }
}

fn hear(socket: &OwnedFd) -> io::Result<Heard> {
    Ok(match report_in(&wire::receive(socket.as_fd())?.bytes)? {
        Some(Report::Exited(code)) => Heard::Ended(Ending::Exited(code)),
        Some(Report::Signaled(signal)) => Heard::Ended(Ending::Signaled(signal)),
        Some(Report::Failed { .. } | Report::NotExecuted { .. }) => Heard::Ended(Ending::Lost),
        Some(Report::Ready | Report::Walled | Report::Running) => Heard::Otherwise,
        None => Heard::Gone,
    })
}

fn next(socket: BorrowedFd<'_>, deadline: Instant) -> io::Result<wire::Received> {
    if readable(socket, Some(deadline))? {
        wire::receive(socket)
    } else {
        Err(io::Error::new(io::ErrorKind::TimedOut, "it said nothing for 20 s"))
    }
}

fn report_in(bytes: &[u8]) -> io::Result<Option<Report>> {
    if bytes.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(bytes)?)) }
}

fn refusal(report: Report) -> WallError {
    match report {
        Report::Failed { step, errno, feature } => diagnose::explain(step, errno, feature),
        Report::NotExecuted { .. }
        | Report::Ready
        | Report::Walled
        | Report::Running
        | Report::Exited(_)
        | Report::Signaled(_) => WallError::Helper {
            asking: "for a cage",
            source: io::Error::new(io::ErrorKind::InvalidData, format!("it answered {report:?} out of turn")),
        },
    }
}

#[cfg(not(feature = "measure-single-walls"))]
fn chosen_walls() -> Walls {
    Walls { mounts: true, landlock: true, seccomp: true }
}

#[cfg(feature = "measure-single-walls")]
static LEFT_OUT: std::sync::Mutex<Option<String>> = std::sync::Mutex::new(None);

/// Leaves one wall (`mounts`, `landlock` or `seccomp`) out of every cage that is opened from now on, to measure what
/// it stops.
#[cfg(feature = "measure-single-walls")]
pub(crate) fn leave_out(wall: &str) {
    *LEFT_OUT.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(wall.to_owned());
}

#[cfg(feature = "measure-single-walls")]
fn chosen_walls() -> Walls {
    let left_out =
        LEFT_OUT.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone().unwrap_or_default();
    Walls { mounts: left_out != "mounts", landlock: left_out != "landlock", seccomp: left_out != "seccomp" }
}

#[cfg(all(feature = "measure-single-walls", not(debug_assertions)))]
compile_error!("measure-single-walls builds cages with walls left out, and must never be released");
