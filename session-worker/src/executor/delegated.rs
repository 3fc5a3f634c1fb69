//! The hands of a sub-session: the same tools under the same rules, each call recorded as an action of the sub-session first.
//!
//! Invariant: a call is carried out only once it is durable; what has an effect never overlaps with anything else that has.
//! Invariant: once closed, nothing runs and nothing begins.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use protocol::{
    action::Action,
    canonical::CanonicalJson,
    id::ActionId,
    tool::{InvalidInput, ToolInput, ToolKind, ToolName},
};
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, OnceCell, RwLock};

use super::{
    authorize::{Authority, Released},
    carry_out::{Call, CallRefused, Executor},
    tools::Tools,
};
use crate::link::recorder::{NotRecorded, Recorder};

/// A call by the turn and the id that its model gave it: a call that comes again joins the first.
type Calls = HashMap<(u32, String), Arc<OnceCell<(ActionId, Authority)>>>;

/// The executor of one sub-session. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Delegated(Arc<Inner>);

struct Inner {
    recorder: Recorder,
    tools: Tools,
    /// The number of the model's newest turn.
    turn: Box<dyn Fn() -> u32 + Send + Sync>,
    calls: Mutex<Calls>,
    effects: AsyncMutex<()>,
    /// Held while a call runs; true once closed.
    closed: RwLock<bool>,
}

impl fmt::Debug for Delegated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Delegated")
    }
}

impl Delegated {
    /// An executor that records with `recorder`, which is the sub-session's.
    pub(crate) fn new(
        recorder: Recorder,
        tools: Tools,
        turn: impl Fn() -> u32 + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            recorder,
            tools,
            turn: Box::new(turn),
            calls: Mutex::default(),
            effects: AsyncMutex::default(),
            closed: RwLock::new(false),
        }))
    }

    /// Carries out a call, or gives the receipt that it already has.
    ///
    /// # Errors
    /// Where the input is not one of the tool's, the sub-session is over, or nothing can be recorded.
    pub(crate) async fn call(&self, id: &str, tool: ToolName, input: Value) -> Result<Released, CallRefused> {
        ToolInput::parse(tool, &input)?;
        let canonical = CanonicalJson::of(&input)
            .map_err(|inexact| InvalidInput { tool, reason: inexact.to_string() })?;
        let key = ((self.0.turn)(), id.to_owned());
        let this = self.clone();
        // A task of its own: the caller may go away, the action does not.
        let work = tokio::spawn(async move { this.carry_out(key, (tool, canonical), input).await });
        work.await.unwrap_or(Err(CallRefused::NotRecorded(NotRecorded)))
    }

    async fn carry_out(
        &self,
        key: (u32, String),
        (tool, canonical): (ToolName, CanonicalJson),
        input: Value,
    ) -> Result<Released, CallRefused> {
        let closed = self.0.closed.read().await;
        if *closed {
            return Err(CallRefused::NotRecorded(NotRecorded));
        }
        let cell = {
            let mut calls = self.0.calls.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(calls.entry(key).or_default())
        };
        let record = || async {
            let action = Action { action_id: ActionId::mint(), tool, input: canonical };
            let action_id = action.action_id;
            self.0.recorder.called(action).await.map(|called| (action_id, Authority::of_call(called)))
        };
        let (action_id, authority) = cell.get_or_try_init(record).await?.clone();
        let _alone = match tool.kind() {
            ToolKind::Reads => None,
            ToolKind::Runs | ToolKind::Writes | ToolKind::Delegates => Some(self.0.effects.lock().await),
        };
        let executor = Executor::new(authority, self.0.recorder.clone(), self.0.tools.clone());
        executor.call(Call { action_id, tool, input }).await
    }

    /// Waits until what runs has its outcome, and lets nothing begin any more.
    pub(crate) async fn close(&self) {
        *self.0.closed.write().await = true;
    }
}
