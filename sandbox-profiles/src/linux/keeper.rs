//! The helper process: one per session and kind of cage. It holds the user, network and host-name namespaces, which
//! are dear to make and hold nothing that a command could leave behind, and forks every cage from them.
//!
//! It is the program of its caller, executed again, because a process with several threads can't build a cage.
//!
//! Invariant: it has one thread, reads nothing but its socket, and ends when the caller does.
//! Invariant: the caller's end of a cage's socket closes only after the last process of that cage is gone.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, unshare},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        socket::{AddressFamily, SockFlag, SockType, socket},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getgid, getuid},
};
use std::{
    collections::BTreeMap,
    fs, io,
    net::{Ipv4Addr, TcpListener},
    os::fd::{AsFd, OwnedFd},
};

use super::{
    init::{self, Given},
    inside::Streams,
    step::{Named, Step, StepFailed},
    sys::{self, Forked},
    wire::{self, Report},
};
use crate::error::Feature;

/// What a keeper's network namespace holds; its second argument.
const NO_NETWORK: &str = "commands";
const LISTENER: &str = "port=";

/// The second argument that asks for a keeper with or without a listener.
pub(super) fn argument(port: Option<u16>) -> String {
    port.map_or_else(|| NO_NETWORK.to_owned(), |port| format!("{LISTENER}{port}"))
}

fn port_in(argument: &str) -> io::Result<Option<u16>> {
    if argument == NO_NETWORK {
        return Ok(None);
    }
    argument
        .strip_prefix(LISTENER)
        .and_then(|port| port.parse().ok())
        .map(Some)
        .ok_or_else(|| io::Error::from_raw_os_error(nix::libc::EINVAL))
}

/// Is the keeper until the caller is gone. The socket to the caller is standard input.
pub(super) fn run(argument: &str) -> i32 {
    let Ok(caller) = take_socket() else { return 1 };
    let (report, keeper) = match make(argument) {
        Ok(keeper) => (Report::Ready, Some(keeper)),
        Err(failed) => (Report::from(failed), None),
    };
    let listener = keeper.as_ref().and_then(|keeper| keeper.listener.as_ref());
    let sent = serde_json::to_vec(&report).map_err(io::Error::from).and_then(|bytes| {
        let beside = listener.map(|listener| wire::numbers(&[listener])).unwrap_or_default();
        wire::send(caller.as_fd(), &bytes, &beside)
    });
    let (Ok(()), Some(mut keeper)) = (sent, keeper) else { return 1 };
    keeper.listener = None; // the caller alone accepts
    match keeper.serve(&caller) {
        Ok(()) => 0,
        Err(_) => 1, // the caller sees the socket close
    }
}

/// Moves the socket away from standard input, so that no cage inherits it under that number.
fn take_socket() -> io::Result<OwnedFd> {
    sys::close_all_but(3, &[])?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(socket)
}

struct Keeper {
    listener: Option<TcpListener>,
    port: Option<u16>,
    children: SignalFd,
    /// Cages that live, each with a copy of the socket to its caller.
    cages: BTreeMap<Pid, OwnedFd>,
    tether: OwnedFd,
    /// Closes, when this process ends, in every cage.
    held: OwnedFd,
}

fn make(argument: &str) -> Step<Keeper> {
    let port = port_in(argument).step(|| "reading the helper's argument".into())?;
    nix::unistd::setsid().step(|| "starting a session".into())?;
    namespaces()?;
    let listener = port.map(listen).transpose()?;
    let port = match &listener {
        Some(listener) => Some(listener.local_addr().step(|| "asking for the port".into())?.port()),
        None => None,
    };
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block().step(|| "blocking signals".into())?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .step(|| "watching for the end of cages".into())?;
    let (tether, held) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).step(|| "making a pipe".into())?;
    Ok(Keeper { listener, port, children, cages: BTreeMap::new(), tether, held })
}

fn namespaces() -> Step<()> {
    let (user, group) = (getuid(), getgid());
    let made = || -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWUSER)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
    };
    made().needs(Feature::UserNamespace, || "making a user namespace".into())?;
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS)
        .needs(Feature::Namespaces, || "making network and host-name namespaces".into())
}

fn listen(port: u16) -> Step<TcpListener> {
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .step(|| "making a socket".into())?;
    sys::bring_loopback_up(any.as_fd()).step(|| "bringing lo up".into())?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).step(|| format!("listening on 127.0.0.1:{port}"))
}

impl Keeper {
    fn serve(mut self, caller: &OwnedFd) -> io::Result<()> {
        loop {
            let mut watched = [
                PollFd::new(caller.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut watched, PollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            let [asked, ended] = watched.map(|watched| watched.any() == Some(true));
            if ended {
                while self.children.read_signal()?.is_some() {}
                self.reap()?;
            }
            if asked {
                let message = wire::receive(caller.as_fd())?;
                if message.bytes.is_empty() {
                    break;
                }
                self.open(message.descriptors)?;
            }
        }
        // The caller is gone: so is every cage, and this process stays until the last one is.
        drop(self.held);
        while !self.cages.is_empty() {
            match waitpid(None, None) {
                Ok(ended) => ended.pid().and_then(|pid| self.cages.remove(&pid)),
                Err(Errno::EINTR) => None,
                Err(_) => break,
            };
        }
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Err(Errno::EINTR) => {}
                // The cage's last process is gone, now its socket may close.
                other => drop(other?.pid().and_then(|pid| self.cages.remove(&pid))),
            }
        }
    }

    /// Forks a cage. What is wrong with it the cage itself tells its caller.
    fn open(&mut self, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let Ok([caller, stdin, stdout, stderr, order]) = <[OwnedFd; 5]>::try_from(descriptors) else {
            return Ok(()); // not an order; dropping the descriptors tells the sender
        };
        let namespaces = nix::libc::CLONE_NEWNS | nix::libc::CLONE_NEWPID | nix::libc::CLONE_NEWIPC;
        match sys::fork_into(namespaces) {
            Ok(Forked::Child) => match self.tether.try_clone() {
                Err(_) => sys::exit_now(1),
                Ok(tether) => init::run(Given {
                    caller,
                    streams: Streams { stdin, stdout, stderr },
                    order,
                    tether,
                    port: self.port,
                }),
            },
            Ok(Forked::Parent(pid)) => {
                self.cages.insert(pid, caller);
                Ok(())
            }
            Err(error) => {
                let step = "making mount, pid and ipc namespaces".to_owned();
                let failed = StepFailed { step, source: error, feature: Some(Feature::Namespaces) };
                wire::report(caller.as_fd(), &Report::from(failed))
            }
        }
    }
}
