//! Carries out one tool call: authorize, do, record, release.
//!
//! Invariant: what is released is a recorded receipt, nothing else (T4).
//! Invariant: the work goes on when its caller is gone; a call that comes again joins it or gets its receipt.

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use protocol::{
    action::Action,
    crash,
    id::ActionId,
    timestamp::Timestamp,
    tool::{InvalidInput, ToolInput, ToolName},
};
use serde_json::Value;

use super::{
    authorize::{Authority, Authorized, Begin, Refusal, Released},
    tools::{Tools, panicked},
};
use crate::link::recorder::{NotRecorded, Recorder};

/// A tool call as Claude Code makes it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The id that the call carries.
    pub(crate) action_id: ActionId,
    /// The tool.
    pub(crate) tool: ToolName,
    /// Its input as it arrived.
    pub(crate) input: Value,
}

/// Why a call has no receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallRefused {
    /// The input is not one of the tool's.
    #[error(transparent)]
    Input(#[from] InvalidInput),
    /// It is no action that may run.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It ran, and the worker ends before its receipt is durable.
    #[error(transparent)]
    NotRecorded(#[from] NotRecorded),
}

/// Carries out the calls of one session. A clone is the same executor.
#[derive(Debug, Clone)]
pub(crate) struct Executor {
    authority: Authority,
    recorder: Recorder,
    tools: Tools,
}

impl Executor {
    pub(crate) const fn new(authority: Authority, recorder: Recorder, tools: Tools) -> Self {
        Self { authority, recorder, tools }
    }

    /// Carries out a call, or gives the receipt that its action already has.
    ///
    /// # Errors
    /// Where the call is not an action that may run, or its receipt can't be recorded.
    pub(crate) async fn call(&self, call: Call) -> Result<Released, CallRefused> {
        let input = ToolInput::parse(call.tool, &call.input)?;
        match self.authority.begin(call.action_id, call.tool, &call.input) {
            Begin::Run(action) => {
                let executor = self.clone();
                // A task of its own: the caller may go away, the action does not.
                let work = tokio::spawn(async move { executor.carry_out(action, input).await });
                work.await.unwrap_or(Err(NotRecorded)).map_err(CallRefused::from)
            }
            Begin::Done(receipt) => Ok(receipt),
            Begin::Running(running) => running.receipt().await.ok_or(CallRefused::NotRecorded(NotRecorded)),
            Begin::Refused(refusal) => Err(refusal.into()),
        }
    }

    async fn carry_out(&self, action: Authorized<Action>, input: ToolInput) -> Result<Released, NotRecorded> {
        action.its_turn().await;
        let began_at = Timestamp::now();
        let work = AssertUnwindSafe(self.tools.run(&action, input, &self.recorder)).catch_unwind();
        let outcome = work.await.unwrap_or_else(|_| panicked());
        crash::point("worker-before-receipt");
        let receipt = outcome.into_receipt(action.get(), began_at);
        let receipt = self.recorder.receipt(receipt).await?;
        crash::point("worker-after-receipt-acknowledged");
        self.tools.note(receipt.get());
        let released = action.settle(receipt);
        self.tools.prepare();
        Ok(released)
    }
}
