//! One tool call: its work in a task of its own, and the caller who waits for it.
//!
//! Invariant: the work is never dropped. A caller that leaves, a cancelled request or a drain ends only the waiting inside it.
//! Invariant: every call is answered within its bound, also when its work panics or hangs.

use std::{sync::Arc, time::Duration};

use protocol::failure::Failure;
use rmcp::{
    RoleServer,
    model::{CallToolResult, JsonObject, ProgressNotificationParam},
    service::RequestContext,
};
use tokio::{
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, interval_at, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    arguments::{self, Call},
    config::Bounds,
    failure::{self, TextMode},
    sessions::{Caller, Sessions},
    tool::SessionTool,
    transport::Inexact,
};
use crate::session::view::SessionView;

/// How long a notification may take: a client that does not read must not hold up its own call's end.
const TELLING: Duration = Duration::from_secs(1);

/// What all calls share.
pub(super) struct Desk<S> {
    pub(super) sessions: S,
    pub(super) text: TextMode,
    pub(super) bounds: Bounds,
    /// Cancelled when the gateway goes down.
    pub(super) drain: CancellationToken,
    /// The work under way.
    pub(super) work: TaskTracker,
    /// Places for calls that wait.
    pub(super) waiters: Arc<Semaphore>,
}

type Outcome = Result<Box<SessionView>, Failure>;

impl<S: Sessions> Desk<S> {
    /// Runs a call and gives its result.
    pub(super) async fn call(
        &self,
        tool: SessionTool,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let outcome = match exact(tool, context).and_then(|()| self.begin(tool, arguments)) {
            Ok((work, gone)) => self.observe(tool, work, (gone, context)).await,
            Err(failure) => Err(failure),
        };
        failure::result(outcome, self.text)
    }

    fn begin(
        &self,
        tool: SessionTool,
        arguments: JsonObject,
    ) -> Result<(JoinHandle<Outcome>, CancellationToken), Failure> {
        let call = arguments::parse(tool, arguments)?;
        let place = if call.waits() {
            let place = Arc::clone(&self.waiters).try_acquire_owned();
            Some(place.map_err(|_| failure::too_many(tool, self.bounds.waiters))?)
        } else {
            None
        };
        let gone = self.drain.child_token();
        let caller = Caller { gone: gone.clone(), conversation: None };
        let sessions = self.sessions.clone();
        let work = self.work.spawn(async move {
            let outcome = perform(sessions, call, caller).await;
            drop(place);
            outcome.map(Box::new)
        });
        Ok((work, gone))
    }

    async fn observe(
        &self,
        tool: SessionTool,
        mut work: JoinHandle<Outcome>,
        (gone, context): (CancellationToken, &RequestContext<RoleServer>),
    ) -> Outcome {
        let overdue = sleep(self.bounds.call);
        tokio::pin!(overdue);
        let every = self.bounds.progress;
        let mut ticks = interval_at(Instant::now() + every, every);
        let progress_token = context.meta.get_progress_token();
        let mut told = 0.0;
        loop {
            tokio::select! {
                done = &mut work => return done.unwrap_or_else(|error| {
                    tracing::error!(tool = tool.name(), %error, "a call's work ended by a panic");
                    Err(failure::panicked(tool))
                }),
                () = &mut overdue => {
                    tracing::error!(tool = tool.name(), "a call's work did not end in time and goes on without its caller");
                    gone.cancel();
                    return Err(failure::overdue(tool));
                }
                () = context.ct.cancelled(), if !gone.is_cancelled() => gone.cancel(),
                _ = ticks.tick(), if progress_token.is_some() => {
                    if let Some(token) = progress_token.clone() {
                        told += 1.0;
                        let text = "waiting for Claude Code";
                        let note = ProgressNotificationParam::new(token, told).with_message(text);
                        // A client that does not read only misses it.
                        let _ = timeout(TELLING, context.peer.notify_progress(note)).await;
                    }
                }
            }
        }
    }
}

/// Refuses a call with an integer that reading it has changed.
fn exact(tool: SessionTool, context: &RequestContext<RoleServer>) -> Result<(), Failure> {
    let parts = context.extensions.get::<http::request::Parts>();
    match parts.and_then(|parts| parts.extensions.get::<Inexact>()) {
        Some(Inexact(number)) => Err(failure::inexact(tool, number)),
        None => Ok(()),
    }
}

async fn perform<S: Sessions>(sessions: S, call: Call, caller: Caller) -> Result<SessionView, Failure> {
    match call {
        Call::Start(input) => sessions.start(input, caller).await,
        Call::Continue(input) => sessions.continue_(input, caller).await,
        Call::Recover(input) => sessions.recover(input, caller).await,
        Call::Reply(input) => sessions.reply(input, caller).await,
        Call::Status(input) => sessions.status(input, caller).await,
        Call::Stop(input) => sessions.stop(input, caller).await,
    }
}
