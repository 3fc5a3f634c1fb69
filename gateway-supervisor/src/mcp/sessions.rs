//! What the door asks of the sessions behind it.

use std::future::Future;

use protocol::{digest::Digest, failure::Failure};
use tokio_util::sync::CancellationToken;

use super::input::{ContinueInput, RecoverInput, ReplyInput, StartInput, StatusInput, StopInput};
use crate::session::view::SessionView;

/// The call that a session answers. It bounds the waiting, never the work.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Cancelled when the client is gone, cancels its request, or the gateway drains: the wait ends at once with the view as it is.
    pub gone: CancellationToken,
    /// Fingerprint of the conversation that calls, where the client told it.
    pub conversation: Option<Digest>,
}

/// The six calls. Each first commits (durably, single-flight, finishing even if the caller is gone), then observes.
pub trait Sessions: Clone + Send + Sync + 'static {
    /// Starts a session.
    fn start(
        &self,
        input: StartInput,
        caller: Caller,
    ) -> impl Future<Output = Result<SessionView, Failure>> + Send;
    /// Gives a session its next prompt.
    fn continue_(
        &self,
        input: ContinueInput,
        caller: Caller,
    ) -> impl Future<Output = Result<SessionView, Failure>> + Send;
    /// Rotates the lease and goes on.
    fn recover(
        &self,
        input: RecoverInput,
        caller: Caller,
    ) -> impl Future<Output = Result<SessionView, Failure>> + Send;
    /// Answers the pending turn.
    fn reply(
        &self,
        input: ReplyInput,
        caller: Caller,
    ) -> impl Future<Output = Result<SessionView, Failure>> + Send;
    /// Looks, and renews the lease.
    fn status(
        &self,
        input: StatusInput,
        caller: Caller,
    ) -> impl Future<Output = Result<SessionView, Failure>> + Send;
    /// Ends the session.
    fn stop(
        &self,
        input: StopInput,
        caller: Caller,
    ) -> impl Future<Output = Result<SessionView, Failure>> + Send;
}
