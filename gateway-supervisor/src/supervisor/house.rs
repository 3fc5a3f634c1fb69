//! What every session's task has in common.

use std::path::PathBuf;

use protocol::{id::SessionId, wire::launch::ProtectedRoots};

use crate::{
    config::Config,
    control::socket::runtime_folder,
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
    /// The worker's program, which also carries out undos.
    pub(crate) worker: PathBuf,
}

impl House {
    /// What is protected beyond the built-in list. Nothing of a session shows a delegation's key.
    pub(crate) fn protected(&self, key: Option<PathBuf>) -> ProtectedRoots {
        ProtectedRoots {
            homes: self.config.homes.clone(),
            own: vec![self.config.state.clone(), runtime_folder()],
            added: self.config.protected.iter().cloned().chain(key).collect(),
        }
    }

    /// What only the processes of a session carry.
    pub(crate) fn marks(&self, session: SessionId) -> Marks {
        Marks {
            directory: place::directory(&self.config.state, session),
            scratch: place::scratch(&self.config.work, session),
        }
    }
}
