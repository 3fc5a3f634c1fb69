//! A timer that looks at the wall clock once a minute: the system's timers don't count the time that it sleeps.

use std::{io, time::Duration};

use protocol::timestamp::Timestamp;

/// How late a lease that ran out during sleep may be noticed.
const LOOK: Duration = Duration::from_secs(60);

/// The timer.
#[derive(Debug)]
pub(super) struct Timer(Timestamp);

impl Timer {
    /// A timer that is not set.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Timestamp(u64::MAX)))
    }

    /// Sets the moment at which it fires.
    pub(super) fn set(&mut self, at: Timestamp) -> io::Result<()> {
        self.0 = at;
        Ok(())
    }

    /// Waits until it fires, or a minute.
    pub(super) async fn wait(&self) -> io::Result<()> {
        tokio::time::sleep(self.0.since(Timestamp::now()).min(LOOK)).await;
        Ok(())
    }
}
