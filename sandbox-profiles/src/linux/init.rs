//! The first process of a cage: builds its file system, starts the program, reaps, and takes everything along when it
//! ends.
//!
//! Invariant: this process ends as soon as the program, the caller or the keeper does; the kernel then kills whatever
//! is left in the pid namespace, and only then does the keeper learn that it is gone.
#![expect(clippy::disallowed_methods, reason = "the first process of a cage ends what is in it")]

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, setsid},
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use super::{
    inside::{self, Streams},
    landlock::Found,
    mounts,
    step::{Named, Step},
    sys::{self, Forked},
    wire::{self, Ask, Order, Report},
};
use crate::spec::Execution;

/// What the keeper hands to a new cage.
pub(super) struct Given {
    pub(super) caller: OwnedFd,
    pub(super) streams: Streams,
    pub(super) order: OwnedFd,
    /// Its other end closes when the keeper dies.
    pub(super) tether: OwnedFd,
    /// The port of the listener in this network namespace.
    pub(super) port: Option<u16>,
}

/// Runs a cage. Never returns.
pub(super) fn run(given: Given) -> ! {
    let caller = match given.caller.try_clone() {
        Ok(caller) => caller,
        Err(_) => sys::exit_now(1),
    };
    if let Err(failed) = live(given) {
        // A caller that is gone can't be told.
        let _ = wire::report(caller.as_fd(), &Report::from(failed));
    }
    sys::exit_now(0)
}

fn live(given: Given) -> Step<()> {
    let Given { caller, streams, order, tether, port } = given;
    let keep = wire::numbers(&[&caller, &streams.stdin, &streams.stdout, &streams.stderr, &order, &tether]);
    sys::close_all_but(3, &keep).step(|| "closing descriptors".into())?;
    setsid().step(|| "starting a process group".into())?;
    let order = wire::read_order(order).step(|| "reading the order".into())?;
    let found = Found { executables: executables(&order)?, port };
    if order.walls.mounts {
        mounts::build(&order.spec, &found.executables)?;
    }
    nix::sys::prctl::set_dumpable(false).step(|| "hiding the cage's first process".into())?;
    let children = child_signals().step(|| "watching for the end of processes".into())?;
    let (executed, executes) =
        nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).step(|| "making a pipe".into())?;
    match sys::fork().step(|| "forking the program".into())? {
        Forked::Child => inside::become_program(&order, &streams, &found, &caller),
        Forked::Parent(program) => {
            drop((streams, executes));
            watch(&Cage { caller, tether, children, executed, program })
                .step(|| "watching the program".into())
        }
    }
}

fn executables(order: &Order) -> Step<Vec<std::path::PathBuf>> {
    match (&order.spec.execution, &order.program) {
        (Execution::OnlyItself(_), Some(program)) => {
            inside::executables(program).step(|| format!("looking at the program {}", program.path.display()))
        }
        (Execution::OnlyItself(_), None) | (Execution::AnythingBut(_), _) => Ok(Vec::new()),
    }
}

/// A descriptor that becomes readable when a child ends; the mask was set by the keeper.
fn child_signals() -> io::Result<SignalFd> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    Ok(SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

struct Cage {
    caller: OwnedFd,
    tether: OwnedFd,
    children: SignalFd,
    /// Closes when the program is executed.
    executed: OwnedFd,
    program: Pid,
}

/// Whether the cage lives on.
enum Next {
    Live,
    End,
}

fn watch(cage: &Cage) -> io::Result<()> {
    let mut told_running = false;
    loop {
        let mut watched = vec![
            PollFd::new(cage.caller.as_fd(), PollFlags::POLLIN),
            PollFd::new(cage.tether.as_fd(), PollFlags::POLLIN),
            PollFd::new(cage.children.as_fd(), PollFlags::POLLIN),
        ];
        if !told_running {
            watched.push(PollFd::new(cage.executed.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut watched, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        let ready: Vec<bool> = watched.iter().map(|watched| watched.any() == Some(true)).collect();
        let is_ready = |index: usize| ready.get(index).copied().unwrap_or(false);
        if is_ready(1) {
            return Ok(()); // the keeper is gone
        }
        if is_ready(0)
            && let Next::End = obey(cage)?
        {
            return Ok(());
        }
        if is_ready(3) {
            told_running = true;
            // Where the exec failed, its own report has gone first and this one is not looked at.
            wire::report(cage.caller.as_fd(), &Report::Running)?;
        }
        if is_ready(2)
            && let Next::End = reap(cage)?
        {
            return Ok(());
        }
    }
}

fn obey(cage: &Cage) -> io::Result<Next> {
    let asked = wire::receive(cage.caller.as_fd())?;
    let Some(ask) = asked.bytes.first().and_then(|byte| Ask::from_byte(*byte)) else { return Ok(Next::End) };
    let everyone = Pid::from_raw(-1); // all of this pid namespace but its first process
    let (whom, signal) = match ask {
        Ask::Terminate => (cage.program, Signal::SIGTERM),
        Ask::Interrupt => (cage.program, Signal::SIGINT),
        Ask::Pause => (everyone, Signal::SIGSTOP),
        Ask::Resume => (everyone, Signal::SIGCONT),
    };
    match kill(whom, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(Next::Live),
        Err(error) => Err(error.into()),
    }
}

fn reap(cage: &Cage) -> io::Result<Next> {
    while cage.children.read_signal()?.is_some() {}
    loop {
        let ended = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(Next::Live),
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        if ended.pid() != Some(cage.program) {
            continue;
        }
        let report = if let WaitStatus::Exited(_, code) = ended {
            Report::Exited(code)
        } else if let WaitStatus::Signaled(_, signal, _) = ended {
            Report::Signaled(signal as i32)
        } else {
            continue;
        };
        wire::report(cage.caller.as_fd(), &report)?;
        return Ok(Next::End);
    }
}
