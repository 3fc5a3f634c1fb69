//! The owner's door: what `gatewayctl` asks over a Unix socket that only this user can open.
//!
//! Each connection carries frames of JSON, a [`ControlRequest`] for a [`ControlAnswer`], until the client hangs up.
//! Invariant: an answer never holds a lease or a recovery token, and always fits a frame.

pub mod answer;
pub mod socket;

use std::{future::Future, io, sync::Arc, time::Duration};

use interprocess::local_socket::{
    tokio::{Listener, Stream},
    traits::tokio::Listener as _,
};
use protocol::{
    failure::{ErrorCode, Failure},
    id::SessionId,
    wire::{
        control::{ControlAnswer, ControlRequest},
        frame,
    },
};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::session::view::SessionView;
pub use answer::{Overview, SessionCounts, SessionLine, Undone, WorktreeLine};

/// Connections served at once: people and a page, not a crowd.
const CONNECTIONS: usize = 32;

/// A client that sends nothing for this long is gone.
const IDLE: Duration = Duration::from_secs(60);

/// Longest time for one request. A stop waits for Claude Code's process group.
const REQUEST: Duration = Duration::from_secs(50);

/// Pause after a failed accept: out of descriptors is the usual reason, and it passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the owner may ask of the gateway. No lease is needed: whoever opens the socket owns the sessions.
pub trait Owner: Clone + Send + Sync + 'static {
    /// How the gateway stands.
    fn overview(&self) -> impl Future<Output = Result<Overview, Failure>> + Send;
    /// Every session, newest first.
    fn list(&self) -> impl Future<Output = Result<Vec<SessionLine>, Failure>> + Send;
    /// One session.
    fn show(&self, session: SessionId) -> impl Future<Output = Result<SessionView, Failure>> + Send;
    /// The worktrees that are there, the newest session's first.
    fn worktrees(&self) -> impl Future<Output = Result<Vec<WorktreeLine>, Failure>> + Send;
    /// Removes the worktree of a session that has ended.
    fn remove_worktree(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<WorktreeLine, Failure>> + Send;
    /// Ends a session and returns once it has ended; one that had ended already is returned as it is.
    fn stop_by_owner(
        &self,
        session: SessionId,
        reason: Option<String>,
    ) -> impl Future<Output = Result<SessionView, Failure>> + Send;
    /// Puts back what stood before one change, named by its action's id or the beginning of it.
    fn undo(
        &self,
        session: SessionId,
        action: String,
    ) -> impl Future<Output = Result<Undone, Failure>> + Send;
}

/// Serves the owner until `drain` is cancelled; then no new request is begun and open ones get their answer.
pub async fn serve<O: Owner>(listener: Listener, owner: O, drain: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let open = TaskTracker::new();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
        let stream = tokio::select! {
            () = drain.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match stream.and_then(ours) {
            Ok(stream) => {
                let (owner, drain) = (owner.clone(), drain.clone());
                open.spawn(async move {
                    let _place = place;
                    if let Err(error) = converse(stream, &owner, &drain).await {
                        tracing::debug!(%error, "a control connection failed");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a control connection was refused");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    open.close();
    open.wait().await;
}

/// The stream, where its other end is a process of this user.
fn ours(stream: Stream) -> io::Result<Stream> {
    socket::require_own_peer(&stream)?;
    Ok(stream)
}

async fn converse<O: Owner>(
    mut stream: Stream,
    owner: &O,
    drain: &CancellationToken,
) -> Result<(), frame::FrameError> {
    loop {
        let next = tokio::select! {
            () = drain.cancelled() => return Ok(()),
            next = tokio::time::timeout(IDLE, frame::read(&mut stream)) => next,
        };
        let Ok(Some(bytes)) = next.unwrap_or(Ok(None)) else { return Ok(()) };
        let answer = match serde_json::from_slice(&bytes) {
            Ok(request) => answer_in_time(request, owner).await,
            Err(error) => refused(Failure::fixed(
                ErrorCode::InvalidArgument,
                format!("the supervisor does not know this request: {error}"),
                "use the gatewayctl that came with the running supervisor, or restart the supervisor with the newer one",
            )),
        };
        frame::write(&mut stream, &answer::encode(answer)).await?;
    }
}

async fn answer_in_time<O: Owner>(request: ControlRequest, owner: &O) -> ControlAnswer {
    tokio::time::timeout(REQUEST, perform(request, owner)).await.unwrap_or_else(|_| {
        refused(Failure::passing(
            ErrorCode::Busy,
            format!("the supervisor did not finish the request within {} s", REQUEST.as_secs()),
            "ask again: what was begun goes on",
        ))
    })
}

async fn perform<O: Owner>(request: ControlRequest, owner: &O) -> ControlAnswer {
    let body = match request {
        ControlRequest::Status => owner.overview().await.map(|overview| answer::object(&overview)),
        ControlRequest::Sessions => owner.list().await.map(|lines| answer::list(&lines)),
        ControlRequest::Show { session } => owner.show(session).await.map(|view| answer::view(&view)),
        ControlRequest::Worktrees => {
            owner.worktrees().await.map(|worktrees| serde_json::json!({ "worktrees": worktrees }))
        }
        ControlRequest::RemoveWorktree { session } => {
            owner.remove_worktree(session).await.map(|line| answer::object(&line))
        }
        ControlRequest::Stop { session, reason } => {
            owner.stop_by_owner(session, reason).await.map(|view| answer::view(&view))
        }
        ControlRequest::Undo { session, action } => {
            owner.undo(session, action).await.map(|undone| answer::object(&undone))
        }
    };
    match body {
        Ok(body) => ControlAnswer::Done { body },
        Err(failure) => refused(failure),
    }
}

const fn refused(failure: Failure) -> ControlAnswer {
    ControlAnswer::Refused { failure }
}

#[cfg(test)]
mod tests;
