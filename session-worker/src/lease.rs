//! The dead-man timer: when the lease is over the worker ends, whether or not a supervisor is there to say so.
//!
//! Invariant: the wall clock decides, so that a lease which ran out while the machine slept is over when it wakes.
//! Invariant: nothing wakes up before the lease ends (Linux; elsewhere once a minute).

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::io;

use protocol::timestamp::Timestamp;

#[cfg(target_os = "linux")]
use linux::Timer;
#[cfg(target_os = "macos")]
use macos::Timer;

/// The lease's end, and a timer for it.
#[derive(Debug)]
pub(crate) struct DeadMan {
    expires_at: Timestamp,
    timer: Timer,
}

impl DeadMan {
    /// A timer for this end.
    ///
    /// # Errors
    /// Where the system gives no timer.
    pub(crate) fn new(expires_at: Timestamp) -> io::Result<Self> {
        let mut dead_man = Self { expires_at, timer: Timer::new()? };
        dead_man.timer.set(expires_at)?;
        Ok(dead_man)
    }

    /// Moves the end.
    ///
    /// # Errors
    /// Where the system does not take it. The old end stands then.
    pub(crate) fn renew(&mut self, expires_at: Timestamp) -> io::Result<()> {
        self.timer.set(expires_at)?;
        self.expires_at = expires_at;
        Ok(())
    }

    /// Waits for the end. May be called again and again.
    pub(crate) async fn expired(&self) {
        while Timestamp::now() < self.expires_at {
            if let Err(error) = self.timer.wait().await {
                tracing::error!(%error, "the lease's timer failed; the lease is taken for over");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn it_fires_at_the_end_and_a_renewal_moves_the_end() {
        let past = DeadMan::new(Timestamp(1)).unwrap();
        past.expired().await;
        past.expired().await;

        let soon = Timestamp::now().plus(Duration::from_millis(50));
        let timer = DeadMan::new(soon).unwrap();
        timer.expired().await;
        assert!(Timestamp::now() >= soon);

        let mut moved = DeadMan::new(Timestamp::now().plus(Duration::from_secs(3600))).unwrap();
        let soon = Timestamp::now().plus(Duration::from_millis(50));
        moved.renew(soon).unwrap();
        moved.expired().await;
        assert!(Timestamp::now() >= soon);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_lease_that_holds_does_not_fire() {
        let mut timer = DeadMan::new(Timestamp::now().plus(Duration::from_millis(20))).unwrap();
        timer.renew(Timestamp::now().plus(Duration::from_secs(3600))).unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(100), timer.expired()).await.is_err());
    }
}
