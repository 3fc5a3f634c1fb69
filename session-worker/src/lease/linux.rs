//! A timer on the wall clock that also fires for what went by while the machine slept.

mod sys;

use std::io;

use nix::sys::{
    time::{TimeSpec, TimeValLike},
    timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
};
use protocol::timestamp::Timestamp;
use tokio::io::unix::AsyncFd;

/// The timer.
#[derive(Debug)]
pub(super) struct Timer(AsyncFd<sys::Descriptor>);

impl Timer {
    /// A timer that is not set.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_REALTIME, flags)?;
        Ok(Self(sys::register(timer)?))
    }

    /// Sets the moment at which it fires; a moment of the past fires at once.
    pub(super) fn set(&mut self, at: Timestamp) -> io::Result<()> {
        // Zero would disarm it.
        let milliseconds = i64::try_from(at.0.max(1)).unwrap_or(i64::MAX / 2);
        let moment = Expiration::OneShot(TimeSpec::milliseconds(milliseconds));
        // With CANCEL_ON_SET a jump of the clock ends the wait, so that the new time is looked at.
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        Ok(self.0.get_ref().0.set(moment, flags)?)
    }

    /// Waits until it fires or the clock was set.
    pub(super) async fn wait(&self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        match nix::unistd::read(&self.0.get_ref().0, &mut [0; 8]) {
            Ok(_) | Err(nix::errno::Errno::ECANCELED | nix::errno::Errno::EAGAIN) => {
                ready.clear_ready();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
