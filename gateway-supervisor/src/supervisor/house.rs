//! What every session's task has in common.

use protocol::id::SessionId;

use crate::{
    config::Config,
    ledger::Ledger,
    session::keys::InstallKey,
    worker::{orphans::Marks, place, spawn::Spawn},
};

/// The common things.
pub(crate) struct House {
    /// The settings.
    pub(crate) config: Config,
    /// The book.
    pub(crate) ledger: Ledger,
    /// What tokens and keys are derived from.
    pub(crate) keys: InstallKey,
    /// The user's own umask, under which the tools make new files.
    pub(crate) umask: u32,
    /// Starts workers.
    pub(crate) spawner: Box<dyn Spawn>,
}

impl House {
    /// What only the processes of a session carry.
    pub(crate) fn marks(&self, session: SessionId) -> Marks {
        Marks {
            directory: place::directory(&self.config.state, session),
            scratch: place::scratch(&self.config.work, session),
        }
    }
}
