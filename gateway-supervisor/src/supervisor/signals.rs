//! SIGTERM and SIGINT: the first one drains, the second one ends at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the supervisor.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals from now on.
    ///
    /// # Errors
    /// Where the system refuses.
    pub(super) fn take() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Resolves with the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
