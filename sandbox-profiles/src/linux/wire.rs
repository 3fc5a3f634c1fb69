//! What the caller, the keeper and the cage's init say to each other: small messages over sequenced-packet sockets,
//! descriptors beside them, the order itself in an anonymous file.
//!
//! Invariant: lengths are checked before anything is read; a message that can't be read is an error, never a guess.

use nix::{
    sys::socket::{
        AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
        setsockopt, socketpair, sockopt::PassCred,
    },
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut, Read, Seek, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use super::sys;
use crate::{error::Feature, launch::Program, spec::SandboxSpec};

/// Longest report; a step's text and an errno fit many times.
const REPORT_BYTES: usize = 16 * 1024;

/// Longest order: the kernel takes 6 MiB of arguments and environment at most, a byte takes up to four on the wire,
/// and 4,096 paths of 4 KiB stay below the rest.
const ORDER_BYTES: u64 = 96 * 1024 * 1024;

/// Most descriptors beside one message.
const MOST_DESCRIPTORS: usize = 5;

/// What to build and what to start in it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) spec: SandboxSpec,
    /// `None` rehearses: the walls are built and nothing is started.
    pub(super) program: Option<Program>,
    /// Which walls stand; only a build made to measure them can leave one out.
    pub(super) walls: Walls,
}

/// The three layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Walls {
    pub(super) mounts: bool,
    pub(super) landlock: bool,
    pub(super) seccomp: bool,
}

/// What the cage tells its caller.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The keeper stands.
    Ready,
    /// Every wall stands; the sender is the process that now becomes the program.
    Walled,
    /// The program runs.
    Running,
    /// The program ended with this exit code.
    Exited(i32),
    /// The program was ended by this signal.
    Signaled(i32),
    /// A step failed; nothing was started.
    Failed { step: String, errno: i32, feature: Option<Feature> },
    /// The program could not be executed.
    NotExecuted { errno: i32 },
}

/// What the caller asks of a cage that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Terminate = b't' as isize,
    Interrupt = b'i' as isize,
    Pause = b'p' as isize,
    Resume = b'r' as isize,
}

impl Ask {
    pub(super) const fn byte(self) -> u8 {
        self as u8
    }

    pub(super) fn from_byte(byte: u8) -> Option<Ask> {
        [Ask::Terminate, Ask::Interrupt, Ask::Pause, Ask::Resume].into_iter().find(|ask| ask.byte() == byte)
    }
}

/// A pair of connected sockets that keep messages apart and don't survive an exec.
pub(super) fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Makes the kernel say on `channel` which process sent a message.
pub(super) fn learn_senders(channel: BorrowedFd<'_>) -> io::Result<()> {
    Ok(setsockopt(&channel, PassCred, &true)?)
}

/// Sends one message with descriptors beside it.
pub(super) fn send(channel: BorrowedFd<'_>, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    let beside = [ControlMessage::ScmRights(descriptors)];
    let beside: &[ControlMessage<'_>] = if descriptors.is_empty() { &[] } else { &beside };
    let parts = [IoSlice::new(bytes)];
    loop {
        match sendmsg::<()>(channel.as_raw_fd(), &parts, beside, MsgFlags::MSG_NOSIGNAL, None) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// One received message; no bytes mean that every sender is gone.
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) sender: Option<Pid>,
}

/// Waits for one message.
pub(super) fn receive(channel: BorrowedFd<'_>) -> io::Result<Received> {
    let mut bytes = vec![0; REPORT_BYTES];
    let mut space = nix::cmsg_space!([RawFd; MOST_DESCRIPTORS], nix::sys::socket::UnixCredentials);
    let (length, descriptors, sender) = {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let message = loop {
            match recvmsg::<()>(channel.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)
            {
                Err(nix::errno::Errno::EINTR) => {}
                other => break other?,
            }
        };
        let mut descriptors = Vec::new();
        let mut sender = None;
        for beside in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(received) = &beside {
                descriptors.extend(received.iter().map(|descriptor| sys::own(*descriptor)));
            }
            if let ControlMessageOwned::ScmCredentials(credentials) = &beside {
                sender = Some(Pid::from_raw(credentials.pid()));
            }
        }
        if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was longer than allowed"));
        }
        (message.bytes, descriptors, sender)
    };
    bytes.truncate(length);
    Ok(Received { bytes, descriptors, sender })
}

/// Sends a report.
pub(super) fn report(channel: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(report)?;
    if bytes.len() > REPORT_BYTES {
        let step = "a step with an overlong name".to_owned();
        bytes = serde_json::to_vec(&Report::Failed { step, errno: nix::libc::ENAMETOOLONG, feature: None })?;
    }
    send(channel, &bytes, &[])
}

/// Puts an order into an anonymous file.
pub(super) fn write_order(order: &Order) -> io::Result<OwnedFd> {
    let bytes = serde_json::to_vec(order)?;
    if bytes.len() as u64 > ORDER_BYTES {
        return Err(io::Error::from_raw_os_error(nix::libc::E2BIG));
    }
    let file = nix::sys::memfd::memfd_create(c"order", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    File::from(file.try_clone()?).write_all(&bytes)?;
    Ok(file)
}

/// Reads an order back.
pub(super) fn read_order(file: OwnedFd) -> io::Result<Order> {
    let mut file = File::from(file);
    let length = file.metadata()?.len();
    if length > ORDER_BYTES {
        return Err(io::Error::from_raw_os_error(nix::libc::E2BIG));
    }
    file.rewind()?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).map_err(io::Error::other)?);
    file.take(ORDER_BYTES).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The raw numbers of descriptors, to send beside a message.
pub(super) fn numbers(descriptors: &[&dyn AsFd]) -> Vec<RawFd> {
    descriptors.iter().map(|descriptor| descriptor.as_fd().as_raw_fd()).collect()
}
