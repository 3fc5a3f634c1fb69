//! The gateway: finds a session's task, or opens it from the ledger.
//!
//! Invariant: there is at most one task of a session.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use protocol::{failure::Failure, id::SessionId, timestamp::Timestamp};
use tokio::{
    sync::{Mutex as AsyncMutex, OnceCell, oneshot},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::house::House;
use crate::{
    ledger::LedgerError,
    session::{
        actor::{self, Ask, Handle},
        refusal,
        state::State,
    },
};

/// How long the start waits for workers that ran before: longer than a task takes to give one up and end it.
const ATTACH: Duration = Duration::from_secs(20);

/// How long commits may take to finish when the gateway goes down.
const COMMITS: Duration = Duration::from_secs(2);

type Place = Arc<OnceCell<Handle>>;

/// The sessions and what they need. A cheap handle.
#[derive(Clone)]
pub struct Gateway(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) house: Arc<House>,
    places: Mutex<HashMap<SessionId, Place>>,
    /// Held from the last look for a start's key until the session with it exists.
    pub(super) births: AsyncMutex<()>,
    /// Held while a worktree is removed.
    pub(super) removals: AsyncMutex<()>,
    /// Cancelled when the gateway goes down.
    pub(super) drain: CancellationToken,
    /// Commits that are under way.
    pub(super) commits: TaskTracker,
    pub(super) started_at: Timestamp,
    pub(super) mcp_url: String,
}

impl Gateway {
    /// The sessions of an open ledger. Call [`Gateway::attach`] before anybody is served.
    pub(crate) fn new(house: House, mcp_url: String, drain: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            house: Arc::new(house),
            places: Mutex::new(HashMap::new()),
            births: AsyncMutex::new(()),
            removals: AsyncMutex::new(()),
            drain,
            commits: TaskTracker::new(),
            started_at: Timestamp::now(),
            mcp_url,
        }))
    }

    /// Finds every worker that ran before, or finds out that it is gone. Bounded in time: a worker that does not answer is
    /// ended by its proven identity and counts as gone.
    pub async fn attach(&self) {
        let live =
            self.0.house.ledger.sessions().into_iter().filter(|row| {
                row.trouble.is_none() && row.summary.as_ref().is_some_and(|summary| summary.live)
            });
        let attaching: Vec<_> = live
            .map(|row| {
                let gateway = self.clone();
                tokio::spawn(async move { gateway.attach_one(row.session_id).await })
            })
            .collect();
        for one in attaching {
            if let Err(error) = one.await {
                tracing::error!(%error, "attaching a session failed");
            }
        }
    }

    async fn attach_one(&self, session: SessionId) {
        let handle = match self.find(session).await {
            Ok(handle) => handle,
            Err(failure) => return tracing::error!(%session, %failure, "a session could not be opened"),
        };
        let mut pulse = handle.pulse();
        let settled = tokio::time::timeout(ATTACH, pulse.wait_for(|now| !now.unsettled)).await;
        match settled {
            Ok(Ok(now)) => {
                tracing::info!(%session, status = now.status.name(), attached = now.attached, "a session is back");
            }
            Ok(Err(_)) => {}
            Err(_) => {
                tracing::error!(%session, "a session's worker could neither be reached nor ended in time");
            }
        }
    }

    /// The task of a session.
    pub(super) async fn find(&self, session: SessionId) -> Result<Handle, Failure> {
        loop {
            let place = self.place(session);
            let handle = place.get_or_try_init(|| self.open(session)).await?.clone();
            if handle.is_open() {
                return Ok(handle);
            }
            self.forget(session, &place);
        }
    }

    fn place(&self, session: SessionId) -> Place {
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(session).or_default())
    }

    fn forget(&self, session: SessionId, place: &Place) {
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.get(&session).is_some_and(|now| Arc::ptr_eq(now, place)) {
            places.remove(&session);
        }
    }

    async fn open(&self, session: SessionId) -> Result<Handle, Failure> {
        let result = self.load(session).await;
        if result.is_err() {
            // A name that leads nowhere takes no room.
            let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
            places.remove(&session);
        }
        result
    }

    async fn load(&self, session: SessionId) -> Result<Handle, Failure> {
        Ok(actor::open(Arc::clone(&self.0.house), self.state(session).await?))
    }

    /// What the ledger says of a session.
    pub(super) async fn state(&self, session: SessionId) -> Result<State, Failure> {
        let ledger = self.0.house.ledger.clone();
        let loaded = tokio::task::spawn_blocking(move || ledger.load(session))
            .await
            .map_err(|_| refusal::internal("reading the session's record"))?;
        let records = loaded.map_err(|error| {
            if matches!(error, LedgerError::NoSession(_)) {
                refusal::no_session(&session.to_string())
            } else {
                refusal::ledger(&error)
            }
        })?;
        State::of(&records).map_err(|error| {
            tracing::error!(%session, %error, "a session can't be opened");
            refusal::internal("reading the session's record")
        })
    }

    /// Takes in a session that was just created.
    pub(super) async fn adopt(&self, state: State) -> Handle {
        let session = state.birth.session_id;
        let place = self.place(session);
        let house = Arc::clone(&self.0.house);
        place.get_or_init(|| async move { actor::open(house, state) }).await.clone()
    }

    /// Every task that is open.
    pub(super) fn handles(&self) -> Vec<Handle> {
        let places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.values().filter_map(|place| place.get().cloned()).collect()
    }

    /// Ends in good order: nothing new is begun, what is being committed is finished, workers go on alone.
    pub async fn drain(&self) {
        self.0.drain.cancel();
        self.0.commits.close();
        let until = Instant::now() + COMMITS;
        if tokio::time::timeout_at(until, self.0.commits.wait()).await.is_err() {
            tracing::warn!("some commits did not finish in time");
        }
        for handle in self.handles() {
            let detached = handle.ask(|done: oneshot::Sender<()>| Ask::Detach(done));
            if tokio::time::timeout_at(until, detached).await.is_err() {
                tracing::warn!(session = %handle.session_id, "a session did not finish in time");
            }
        }
        let ledger = self.0.house.ledger.clone();
        let closed = tokio::task::spawn_blocking(move || ledger.close());
        if tokio::time::timeout_at(until + COMMITS, closed).await.is_err() {
            tracing::error!("the ledger did not close in time; what was acknowledged is safe");
        }
    }
}
