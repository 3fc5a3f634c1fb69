//! What the owner sees and does, without a lease.

use protocol::{
    failure::{ErrorCode, Failure},
    id::SessionId,
    timestamp::Timestamp,
};

use super::gateway::Gateway;
use crate::{
    control::{Overview, Owner, SessionCounts, SessionLine, Undone, WorktreeLine},
    session::{
        actor::{Ask, Shown},
        refusal, show,
        state::Life,
        view::SessionView,
    },
    worker::orphans,
};

impl Gateway {
    async fn look(&self, session: SessionId) -> Result<SessionView, Failure> {
        let handle = self.find(session).await?;
        let shown = Shown { replay: false, lease: None, with_token: false };
        let view = handle.ask(|answer| Ask::View(shown, answer)).await;
        view.map(|view| *view).map_err(|_| refusal::internal("reaching the session"))
    }
}

impl Gateway {
    /// Looks without opening a task: a list of a thousand sessions must not leave a thousand tasks behind.
    async fn glance(&self, session: SessionId) -> Result<SessionView, Failure> {
        if self.handles().iter().any(|handle| handle.session_id == session && handle.is_open()) {
            return self.look(session).await;
        }
        let mut state = self.state(session).await?;
        if state.life == Life::Live && state.lease.expired(Timestamp::now()) {
            // Its task will record it when it is opened.
            state.life = Life::LeaseExpired;
        }
        let (lease, turn_bytes) = (state.lease, self.0.house.config.turn_bytes);
        Ok(show::view(
            &state,
            &show::Audience { replay: false, lease, token: None, turn_bytes, held_up: false },
        ))
    }
}

impl Owner for Gateway {
    async fn overview(&self) -> Result<Overview, Failure> {
        let stored = self.0.house.ledger.sessions().len();
        let attached = self.handles().iter().filter(|handle| handle.pulse().borrow().attached).count();
        Ok(Overview {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mcp_url: self.0.mcp_url.clone(),
            started_at: self.0.started_at.to_string(),
            sessions: SessionCounts { stored, attached },
        })
    }

    async fn list(&self) -> Result<Vec<SessionLine>, Failure> {
        let mut lines = Vec::new();
        for row in self.0.house.ledger.sessions() {
            // One that can't be read has its line as well: the owner must see that it is there.
            lines.push(match self.glance(row.session_id).await {
                Ok(view) => {
                    let trouble = row.trouble.as_ref().map(ToString::to_string);
                    SessionLine { trouble, ..SessionLine::from(&view) }
                }
                Err(failure) => SessionLine::unreadable(&row, &failure),
            });
        }
        Ok(lines)
    }

    async fn show(&self, session: SessionId) -> Result<SessionView, Failure> {
        self.look(session).await
    }

    async fn worktrees(&self) -> Result<Vec<WorktreeLine>, Failure> {
        Ok(self.kept_worktrees().await)
    }

    async fn remove_worktree(&self, session: SessionId) -> Result<WorktreeLine, Failure> {
        self.end_worktree(session).await
    }

    async fn undo(&self, session: SessionId, action: String) -> Result<Undone, Failure> {
        self.undo_change(session, action).await
    }

    async fn stop_by_owner(
        &self,
        session: SessionId,
        reason: Option<String>,
    ) -> Result<SessionView, Failure> {
        let ended = self.end(session, reason).await;
        if let Err(failure) = &ended
            && failure.code == ErrorCode::LedgerUnavailable
        {
            // Its end can't be recorded; what runs of it ends all the same.
            orphans::sweep(self.0.house.marks(session)).await;
            return Err(Failure::fixed(
                failure.code,
                "the session's record can't be read or written, so its end was not recorded; what ran of it was ended",
                failure.next.clone(),
            ));
        }
        ended
    }
}
