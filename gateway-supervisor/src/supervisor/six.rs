//! The six calls: checked, committed, observed, shown.
//!
//! Invariant: what is committed is finished even if the caller is gone.

use std::{future::Future, time::Duration};

use protocol::{failure::Failure, id::SessionId, lease::Lease, limits::WAIT_SECONDS};
use tokio::time::Instant;

use super::gateway::Gateway;
use crate::{
    ledger::LedgerError,
    mcp::{
        input::{ContinueInput, RecoverInput, ReplyInput, StartInput, StatusInput, StopInput},
        sessions::{Caller, Sessions},
    },
    session::{
        actor::{Ask, Committed, Handle, Shown, TaskGone},
        call,
        decision::Command,
        ground, refusal, reply, start,
        state::State,
        view::SessionView,
        wait::{self, Until, Wait},
    },
};

/// A call answers within this time whatever the ledger and the disk do: what is committed later is found by its replay.
const ANSWER: Duration = Duration::from_secs(54);

/// What is left of a call's time for showing the session.
const SHOW: Duration = Duration::from_secs(2);

/// How a call waits after its commit.
#[derive(Debug, Clone, Copy)]
struct Observation {
    until: Until,
    limit: Duration,
    with_token: bool,
}

impl Gateway {
    /// Runs a call in a task of its own, so that neither its caller's going nor a fault in it touches anything else.
    async fn run<F>(&self, call: F) -> Result<SessionView, Failure>
    where
        F: Future<Output = Result<SessionView, Failure>> + Send + 'static,
    {
        if self.0.drain.is_cancelled() {
            return Err(refusal::shutting_down());
        }
        let running = self.0.commits.spawn(call);
        match tokio::time::timeout(ANSWER, running).await {
            Ok(Ok(result)) => result,
            Ok(Err(fault)) => {
                tracing::error!(%fault, "a call failed");
                Err(refusal::internal("this call"))
            }
            Err(_) => Err(refusal::internal("answering in time: the disk or a process did not answer")),
        }
    }

    /// Commits a call on a session, waits, and shows it.
    async fn perform(
        &self,
        (session, command): (SessionId, Command),
        how: Observation,
        caller: Caller,
    ) -> Result<SessionView, Failure> {
        let began = Instant::now();
        let handle = self.find(session).await?;
        // An end needs no lease and is never refused for want of a place.
        let keeps = !how.limit.is_zero() && how.until == Until::Settled;
        let place = if keeps { Some(wait::Place::take(&handle)?) } else { None };
        let (handle, committed) = self.commit(handle, command).await?;
        let limit = how.limit.min(ANSWER.saturating_sub(SHOW).saturating_sub(began.elapsed()));
        let (until, lease, drain) = (how.until, committed.lease, self.0.drain.clone());
        wait::observe(&handle, &Wait { until, lease, limit, gone: caller.gone, drain }, place).await;
        self.show(handle, &committed, how.with_token).await
    }

    /// The command can't be given a second time: a task that went meanwhile had not taken it.
    async fn commit(&self, handle: Handle, command: Command) -> Result<(Handle, Committed), Failure> {
        let session = handle.session_id;
        let handle = if handle.is_open() { handle } else { self.find(session).await? };
        let asked = handle.ask(|answer| Ask::Commit(Box::new(command), answer)).await;
        match asked {
            Ok(committed) => Ok((handle, committed?)),
            Err(TaskGone) => Err(self.gone()),
        }
    }

    async fn show(
        &self,
        handle: Handle,
        committed: &Committed,
        with_token: bool,
    ) -> Result<SessionView, Failure> {
        let shown = Shown { replay: committed.replay, lease: committed.granted, with_token };
        let view = match handle.ask(|answer| Ask::View(shown, answer)).await {
            Ok(view) => view,
            Err(TaskGone) => {
                // It had ended and lingered long enough; its record is there.
                let handle = self.find(handle.session_id).await?;
                handle.ask(|answer| Ask::View(shown, answer)).await.map_err(|TaskGone| self.gone())?
            }
        };
        self.with_instructions(*view).await
    }

    fn gone(&self) -> Failure {
        if self.0.drain.is_cancelled() {
            refusal::shutting_down()
        } else {
            refusal::internal("reaching the session")
        }
    }

    /// The session of a start: made now, or before with the same key.
    async fn bear(&self, asked: start::Start, caller: &Caller) -> Result<(Handle, Option<Lease>), Failure> {
        if let Some(session) = self.0.house.ledger.session_of_start_key(&asked.key) {
            return Ok((self.find(session).await?, None));
        }
        let (session, gateway) = (SessionId::mint(), self.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let config = &gateway.0.house.config;
            let skills = start::skills(&asked, &config.skills, config.turn_bytes)?;
            start::look(&asked, config).map(|found| (asked, found, skills))
        });
        let (asked, found, skills) =
            looked.await.map_err(|_| refusal::internal("looking at the working directory"))??;
        let config = &self.0.house.config;
        // A large repository takes its time, and other starts don't wait for it.
        let workspace = start::place(&asked, found, (session, config)).await?;
        if asked.writes() {
            let (gateway, source) = (self.clone(), workspace.source.clone());
            let judged =
                tokio::task::spawn_blocking(move || ground::unprotected(&source, &gateway.0.house)).await;
            judged.map_err(|_| refusal::internal("judging the working directory"))??;
        }
        // Two identical starts at once: the second waits here and finds the first one's session.
        let _alone = self.0.births.lock().await;
        if let Some(session) = self.0.house.ledger.session_of_start_key(&asked.key) {
            return Ok((self.find(session).await?, None));
        }
        let cradle = start::Cradle { session, lease: config.lease, conversation: caller.conversation };
        let records = start::born(asked, workspace, cradle, &skills);
        self.freeze(session, skills).await?;
        let durable = match self.0.house.ledger.create(session, records).await {
            Ok(durable) => durable,
            // The index did not know it, the ledger does: the session is there.
            Err(LedgerError::StartKeyTaken(session)) => return Ok((self.find(session).await?, None)),
            Err(error) => return Err(refusal::ledger(&error)),
        };
        let state = State::of(&durable).map_err(|_| refusal::internal("recording the session"))?;
        let lease = state.lease;
        Ok((self.adopt(state).await, Some(lease)))
    }

    async fn start_call(&self, input: StartInput, caller: Caller) -> Result<SessionView, Failure> {
        let began = Instant::now();
        let asked = start::check(input)?;
        let (key, input, limit) = (asked.key.clone(), asked.input, asked.wait);
        let (handle, granted) = self.bear(asked, &caller).await?;
        let session = handle.session_id;
        let how = Observation { until: Until::Settled, limit, with_token: true };
        let Some(lease) = granted else {
            return self.perform((session, Command::StartAgain { key, input }), how, caller).await;
        };
        // A large repository took its time from the wait.
        let limit = limit.saturating_sub(began.elapsed());
        let place = if limit.is_zero() { None } else { Some(wait::Place::take(&handle)?) };
        let (until, lease, drain) = (Until::Settled, lease.lease_id, self.0.drain.clone());
        wait::observe(&handle, &Wait { until, lease, limit, gone: caller.gone, drain }, place).await;
        let committed = Committed { replay: false, lease, granted: None };
        self.show(handle, &committed, true).await
    }
}

const fn settled(limit: Duration) -> Observation {
    Observation { until: Until::Settled, limit, with_token: false }
}

impl Sessions for Gateway {
    async fn start(&self, input: StartInput, caller: Caller) -> Result<SessionView, Failure> {
        let gateway = self.clone();
        self.run(async move { gateway.start_call(input, caller).await }).await
    }

    async fn continue_(&self, input: ContinueInput, caller: Caller) -> Result<SessionView, Failure> {
        let gateway = self.clone();
        self.run(async move {
            let session = call::session(&input.native_session_id)?;
            let how = settled(call::wait(input.wait_seconds, 30)?);
            let digest = call::input_digest(&input)?;
            let command = Command::Continue {
                lease: call::lease(&input.lease_id),
                key: call::key("idempotency_key", &input.idempotency_key)?,
                input: digest,
                prompt: call::prompt(input.prompt)?,
            };
            gateway.perform((session, command), how, caller).await
        })
        .await
    }

    async fn recover(&self, input: RecoverInput, caller: Caller) -> Result<SessionView, Failure> {
        let gateway = self.clone();
        self.run(async move {
            let session = call::session(&input.native_session_id)?;
            let how = settled(call::wait(input.wait_seconds, 0)?);
            let command = Command::Recover {
                proven: gateway.0.house.keys.recovery_token(session).matches(input.recovery_token.as_bytes()),
                key: call::key("recovery_id", &input.recovery_id)?,
                input: call::input_digest(&input)?,
            };
            gateway.perform((session, command), how, caller).await
        })
        .await
    }

    async fn reply(&self, input: ReplyInput, caller: Caller) -> Result<SessionView, Failure> {
        let gateway = self.clone();
        self.run(async move {
            let session = call::session(&input.native_session_id)?;
            let how = settled(call::wait(input.wait_seconds, 30)?);
            let digest = call::input_digest(&input)?;
            let handle = gateway.find(session).await?;
            let command = Command::Reply {
                lease: call::lease(&input.lease_id),
                key: call::key("reply_id", &input.reply_id)?,
                input: digest,
                turn: input.turn_id.parse().ok(),
                content: reply::content(input.text, input.tool_calls, &handle.tools),
            };
            gateway.perform((session, command), how, caller).await
        })
        .await
    }

    async fn status(&self, input: StatusInput, caller: Caller) -> Result<SessionView, Failure> {
        let gateway = self.clone();
        self.run(async move {
            let session = call::session(&input.native_session_id)?;
            let how = settled(call::wait(input.wait_seconds, 0)?);
            let command = Command::Status { lease: call::lease(&input.lease_id) };
            gateway.perform((session, command), how, caller).await
        })
        .await
    }

    async fn stop(&self, input: StopInput, caller: Caller) -> Result<SessionView, Failure> {
        let gateway = self.clone();
        self.run(async move {
            let session = call::session(&input.native_session_id)?;
            let digest = call::input_digest(&input)?;
            let command = Command::Stop {
                lease: call::lease(&input.lease_id),
                key: call::key("request_id", &input.request_id)?,
                input: digest,
                reason: call::words("reason", input.reason)?,
            };
            let limit = Duration::from_secs(WAIT_SECONDS);
            let how = Observation { until: Until::Stopped, limit, with_token: false };
            gateway.perform((session, command), how, caller).await
        })
        .await
    }
}

impl Gateway {
    /// Ends a session by the owner's word, and waits for its end.
    pub(super) async fn end(
        &self,
        session: SessionId,
        reason: Option<String>,
    ) -> Result<SessionView, Failure> {
        let gateway = self.clone();
        self.run(async move {
            let reason = call::words("reason", reason)?;
            let limit = Duration::from_secs(WAIT_SECONDS - 4);
            let how = Observation { until: Until::Stopped, limit, with_token: false };
            gateway.perform((session, Command::StopByOwner { reason }), how, Caller::default()).await
        })
        .await
    }
}
