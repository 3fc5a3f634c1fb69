//! Calls: decided, recorded, answered; and the lease that they keep.

use protocol::{failure::Failure, lease::Lease, timestamp::Timestamp, wire::to_worker::ToWorker};
use tokio::time::Instant;

use super::{Actor, Answer, Ask, Committed, Shown};
use crate::{
    ledger::record::Entry,
    session::{
        decision::{self, Circumstances, Command, Decision, Root},
        refusal, show,
        state::{Life, Process},
        view::SessionView,
    },
    workspace::identity,
};

/// A worker is told of a renewal when it moves the end by at least this part of the lease.
const TELL_PART: u32 = 16;

impl Actor {
    pub(super) async fn answer(&mut self, ask: Ask) {
        self.last_call = Instant::now();
        match ask {
            Ask::Commit(command, answer) => {
                self.keep_or_end_lease().await;
                if self.must_wait(&command) {
                    self.deferred.push((command, answer));
                } else {
                    self.commit(*command, answer).await;
                }
            }
            Ask::View(shown, answer) => {
                // The caller may be gone.
                let _ = answer.send(Box::new(self.view(shown)));
            }
            Ask::Undo(ask) => self.answer_undo(ask).await,
            Ask::Note(entry, answer) => {
                let noted = self.record(vec![*entry]).await.map_err(|error| refusal::ledger(&error));
                // The caller may be gone.
                let _ = answer.send(noted);
            }
            Ask::Detach(done) => self.detach(done),
        }
    }

    /// A lease that ran out takes its worker with it: what became of its run is known once that is gone.
    fn must_wait(&self, command: &Command) -> bool {
        matches!(command, Command::Recover { proven: true, key, .. } if !self.state.keys.recoveries.contains_key(key))
            && self.state.life == Life::LeaseExpired
            && (self.state.process != Process::None || self.state.open_run().is_some())
    }

    pub(super) async fn take_deferred(&mut self) {
        if self.deferred.is_empty() {
            return;
        }
        for (command, answer) in std::mem::take(&mut self.deferred) {
            if self.must_wait(&command) {
                self.deferred.push((command, answer));
            } else {
                self.commit(*command, answer).await;
            }
        }
    }

    async fn commit(&mut self, command: Command, answer: Answer) {
        let committed = self.committed(command).await;
        // The state moves on with the commit, before anybody hears of it.
        self.converge().await;
        // The caller may be gone; what it committed stays.
        let _ = answer.send(committed);
    }

    async fn committed(&mut self, command: Command) -> Result<Committed, Failure> {
        let renews = command.renews();
        let root = if command.looks_at_root() { self.root().await } else { Root::Same };
        let at = Circumstances { now: Timestamp::now(), lease_ends: self.clock.ends(), root };
        let found_replaced = match &at.root {
            Root::Replaced(reason) => Some(reason.clone()),
            Root::Same => None,
        };
        let continues = matches!(command, Command::Continue { .. });
        let decision = match decision::decide(&self.state, command, &at) {
            Ok(decision) => decision,
            Err(failure) => {
                if let Some(reason) = found_replaced.filter(|_| continues && self.may_note_root(&failure)) {
                    self.must_record(vec![Entry::RootReplaced { reason }]).await;
                }
                return Err(failure);
            }
        };
        let (replay, granted) = match decision {
            Decision::Append(entries) => {
                let before = self.state.lease.lease_id;
                self.record(entries).await.map_err(|error| refusal::ledger(&error))?;
                if self.state.lease.lease_id != before {
                    self.lease_was_granted();
                }
                (false, None)
            }
            Decision::Show => (false, None),
            Decision::Replay(granted) => (true, granted),
        };
        // What a call that was made before renewed, it renewed then.
        if renews && !replay {
            self.renew().await;
        }
        let newest = self.state.lease.lease_id;
        let granted = granted.filter(|lease| lease.lease_id != newest);
        Ok(Committed { replay, lease: granted.map_or(newest, |lease| lease.lease_id), granted })
    }

    /// A continue that was refused because of the root alone: the view says so from now on.
    fn may_note_root(&self, failure: &Failure) -> bool {
        failure.code == protocol::failure::ErrorCode::RecoveryRequired && self.state.trouble.root.is_none()
    }

    async fn root(&self) -> Root {
        if !self.state.placed {
            return Root::Same;
        }
        let workspace = &self.state.birth.workspace;
        let (path, before) = (workspace.root.clone(), workspace.identity.clone());
        // Looking at a directory may block on a slow file system.
        let looked = tokio::task::spawn_blocking(move || identity::difference(&path, &before)).await;
        match looked {
            Ok(None) => Root::Same,
            Ok(Some(reason)) => Root::Replaced(reason),
            Err(_) => Root::Replaced("the session's directory could not be looked at".to_owned()),
        }
    }

    fn lease_was_granted(&mut self) {
        let length = std::time::Duration::from_millis(self.state.birth.lease_millis);
        self.clock = crate::lease::LeaseClock::new(self.state.lease.expires_at, length);
        self.tell_lease();
    }

    /// Renews the lease, unless the session ends: then it needs none.
    async fn renew(&mut self) {
        if self.state.life != Life::Live {
            return;
        }
        if let Some(expires_at) = self.clock.renew(Timestamp::now()) {
            // The lease holds even if the ledger is full; it is recorded with the next renewal.
            if let Err(error) = self.record(vec![Entry::LeaseRenewed { expires_at }]).await {
                tracing::error!(%error, "a renewed lease could not be recorded");
            }
        }
        let step = std::time::Duration::from_millis(self.state.birth.lease_millis) / TELL_PART;
        if self.clock.ends().since(self.lease_told) >= step {
            self.tell_lease();
        }
    }

    fn tell_lease(&mut self) {
        let expires_at = self.clock.ends();
        self.lease_told = expires_at;
        self.tell(ToWorker::Lease { expires_at });
    }

    /// A call that waits keeps the lease; without one it runs out.
    pub(super) async fn keep_or_end_lease(&mut self) {
        if self.state.life != Life::Live {
            return;
        }
        if self.waiters.keep_lease() {
            self.renew().await;
        } else if self.clock.over(Timestamp::now()) {
            tracing::info!(session = %self.state.birth.session_id, "the lease ran out");
            self.must_record(vec![Entry::LeaseExpired]).await;
        }
    }

    fn view(&self, shown: Shown) -> SessionView {
        let newest = Lease { lease_id: self.state.lease.lease_id, expires_at: self.clock.ends() };
        let token = shown.with_token.then(|| self.house.keys.recovery_token(self.state.birth.session_id));
        let audience = show::Audience {
            replay: shown.replay,
            lease: shown.lease.unwrap_or(newest),
            token,
            turn_bytes: self.house.config.turn_bytes,
            held_up: self.held_up(),
        };
        show::view(&self.state, &audience)
    }
}
