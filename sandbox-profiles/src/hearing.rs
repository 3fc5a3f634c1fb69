//! Hearing how a caged program ends: the waiting half of a cage, over the socket to whoever keeps it.
//!
//! What a keeper's messages look like is the system's own; it hands in how one is read.
//!
//! Invariant: the end is told only once the keeper's side is closed, which is when the last process of the cage is gone.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{Shutdown, shutdown},
};

use crate::launch::Ending;

/// What one message of a keeper says about the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing.
    Otherwise,
    /// How the program ended. What it started may still be there.
    Ended(Ending),
    /// The keeper's side is closed: nothing of the cage is left.
    Gone,
}

#[derive(Debug, Default)]
struct Known {
    said: Option<Ending>,
    gone: bool,
    killed: bool,
}

/// This side of the socket, with what was heard over it. Several threads may wait at once.
#[derive(Debug)]
pub(crate) struct Hearing<S> {
    socket: S,
    known: Mutex<Known>,
}

impl<S: AsFd> Hearing<S> {
    pub(crate) fn new(socket: S) -> Self {
        Hearing { socket, known: Mutex::new(Known::default()) }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Waits until nothing of the cage is left, or until `deadline`; `read` takes one message off the socket.
    pub(crate) fn wait(
        &self,
        deadline: Option<Instant>,
        read: impl Fn(&S) -> io::Result<Heard>,
    ) -> io::Result<Option<Ending>> {
        loop {
            {
                let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                if known.gone {
                    let unsaid = if known.killed { Ending::Killed } else { Ending::Lost };
                    return Ok(Some(known.said.unwrap_or(unsaid)));
                }
            }
            if !readable(self.socket.as_fd(), deadline)? {
                return Ok(None);
            }
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.gone || !readable(self.socket.as_fd(), Some(Instant::now()))? {
                continue; // another thread heard it
            }
            match read(&self.socket)? {
                Heard::Otherwise => {}
                Heard::Ended(ending) => known.said = Some(ending),
                Heard::Gone => known.gone = true,
            }
        }
    }

    /// Closes this direction, upon which the keeper ends everything in the cage; `wait` tells when it is gone.
    pub(crate) fn kill_tree(&self) -> io::Result<()> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).killed = true;
        match shutdown(self.socket.as_fd().as_raw_fd(), Shutdown::Write) {
            Ok(()) | Err(Errno::ENOTCONN | Errno::EPIPE) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether there is something to read before `deadline`.
pub(crate) fn readable(socket: BorrowedFd<'_>, deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let timeout = match deadline {
            None => PollTimeout::NONE,
            Some(deadline) => {
                // Rounded up, so that the wait isn't a busy one in its last millisecond.
                let left = deadline.saturating_duration_since(Instant::now()).as_nanos().div_ceil(1_000_000);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut watched = [PollFd::new(socket, PollFlags::POLLIN)];
        match poll(&mut watched, timeout) {
            Err(Errno::EINTR) => {}
            Ok(0) if deadline.is_some_and(|deadline| Instant::now() < deadline) => {}
            other => return Ok(other? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
        thread,
        time::Duration,
    };

    use super::*;

    /// A keeper that says one byte a message: an exit code.
    fn read(mut socket: &UnixStream) -> io::Result<Heard> {
        let mut byte = [0];
        Ok(match socket.read(&mut byte)? {
            0 => Heard::Gone,
            _ if byte[0] == u8::MAX => Heard::Otherwise,
            _ => Heard::Ended(Ending::Exited(byte[0].into())),
        })
    }

    #[test]
    fn the_end_is_told_when_the_last_process_is_gone_and_to_everyone_who_waits() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let hearing = Hearing::new(ours);
        theirs.write_all(&[u8::MAX, 7]).unwrap();
        let soon = Some(Instant::now() + Duration::from_millis(20));
        assert_eq!(hearing.wait(soon, read).unwrap(), None, "it ended, and what it started has not");
        thread::scope(|threads| {
            let waiting: Vec<_> =
                (0..4).map(|_| threads.spawn(|| hearing.wait(None, read).unwrap())).collect();
            drop(theirs);
            for one in waiting {
                assert_eq!(one.join().unwrap(), Some(Ending::Exited(7)));
            }
        });
    }

    #[test]
    fn an_end_that_nobody_told_is_a_kill_where_one_was_asked_for_and_else_a_loss() {
        for (kill, expected) in [(true, Ending::Killed), (false, Ending::Lost)] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let hearing = Hearing::new(ours);
            if kill {
                hearing.kill_tree().unwrap();
                assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "the keeper hears of it");
            }
            drop(theirs);
            assert_eq!(hearing.wait(None, read).unwrap(), Some(expected));
            hearing.kill_tree().expect("a second time is past it");
        }
    }
}
