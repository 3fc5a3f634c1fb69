//! Which tool calls may run: the actions of the newest released reply, each once, in the reply's order (T5).
//!
//! Invariant: an [`Authorized`] value is made here alone, once for each action, and only for the recorded tool and input.
//! Invariant: what has an effect starts after everything before it in the reply has ended, and nothing before it starts
//! later.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::{
    action::Action,
    canonical::CanonicalJson,
    id::{ActionId, TurnId},
    receipt::Receipt,
    recorded::Recorded,
    tool::{ToolKind, ToolName},
    turn::Reply,
};
use serde_json::Value;
use tokio::sync::watch;

/// A receipt that its calls share.
pub(crate) type Released = Arc<Recorded<Receipt>>;

/// The actions that may run now. A clone is the same authority.
#[derive(Debug, Clone, Default)]
pub(crate) struct Authority(Arc<Mutex<Option<Arc<OpenReply>>>>);

/// The actions of one reply and how each stands.
#[derive(Debug)]
struct OpenReply {
    turn_id: TurnId,
    actions: Vec<Action>,
    /// One for each action, in the same order.
    states: Mutex<Vec<ActionState>>,
    /// Counts changes of `states`.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Clone)]
enum ActionState {
    /// Nobody called it yet.
    Waiting,
    /// It runs, or waits for what stands before it.
    Begun,
    /// Its receipt is durable.
    Done(Released),
    /// It was passed over: something with an effect that stands after it has begun.
    PassedOver,
    /// It ran and its receipt could not be recorded.
    Lost,
}

/// The answer to a tool call.
#[derive(Debug)]
#[must_use]
pub(crate) enum Begin {
    /// It may run, now and once.
    Run(Authorized<Action>),
    /// It ran: here is its receipt.
    Done(Released),
    /// It runs already: wait for the same receipt.
    Running(Running),
    /// It may not run.
    Refused(Refusal),
}

/// Why a tool call may not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// No such action in the newest reply.
    #[error("no action {0} belongs to the reply that is being carried out; nothing was run")]
    UnknownAction(ActionId),
    /// The action is another tool's.
    #[error("the action {action_id} is a call of {recorded}, not of {called}; nothing was run", recorded = recorded.name(), called = called.name())]
    OtherTool {
        /// The action.
        action_id: ActionId,
        /// The recorded tool.
        recorded: ToolName,
        /// The called tool.
        called: ToolName,
    },
    /// The input is not the recorded one.
    #[error("the input is not the one that was recorded for the action {0}; nothing was run")]
    OtherInput(ActionId),
    /// A later action with an effect has begun.
    #[error(
        "the action {0} comes too late: one that stands after it in the reply has begun; nothing was run"
    )]
    PassedOver(ActionId),
    /// It ran without a recorded outcome.
    #[error("the action {0} was begun and its outcome could not be recorded; it is not run again")]
    Lost(ActionId),
}

/// Something that may be carried out. Dropped without a receipt, its action counts as lost and never runs again.
pub(crate) struct Authorized<T> {
    value: T,
    place: Place,
    settled: bool,
}

/// A call that joined the one that runs.
#[derive(Debug)]
pub(crate) struct Running(Place);

#[derive(Debug, Clone)]
struct Place {
    reply: Arc<OpenReply>,
    index: usize,
}

impl Authority {
    /// Makes the actions of a released reply callable, in place of those of the reply before.
    pub(crate) fn open(&self, reply: &Recorded<Reply>) {
        let reply = reply.get();
        let mut current = lock(&self.0);
        if current.as_ref().is_some_and(|open| open.turn_id == reply.turn_id) {
            return; // delivered again after a re-attach: what ran stays ran
        }
        *current = Some(Arc::new(OpenReply {
            turn_id: reply.turn_id,
            actions: reply.actions.clone(),
            states: Mutex::new(vec![ActionState::Waiting; reply.actions.len()]),
            changes: watch::Sender::new(0),
        }));
    }

    /// The authority for one recorded call of a sub-session, and nothing else.
    pub(crate) fn of_call(called: Recorded<Action>) -> Self {
        let open = OpenReply {
            turn_id: TurnId::mint(),
            actions: vec![called.into_inner()],
            states: Mutex::new(vec![ActionState::Waiting]),
            changes: watch::Sender::new(0),
        };
        Self(Arc::new(Mutex::new(Some(Arc::new(open)))))
    }

    /// Decides about a call of `tool` with `input` that carries `action_id`.
    pub(crate) fn begin(&self, action_id: ActionId, tool: ToolName, input: &Value) -> Begin {
        let Some(reply) = lock(&self.0).clone() else {
            return Begin::Refused(Refusal::UnknownAction(action_id));
        };
        let Some(index) = reply.actions.iter().position(|action| action.action_id == action_id) else {
            return Begin::Refused(Refusal::UnknownAction(action_id));
        };
        let action = &reply.actions[index];
        if action.tool != tool {
            return Begin::Refused(Refusal::OtherTool { action_id, recorded: action.tool, called: tool });
        }
        if CanonicalJson::of(input).as_ref() != Ok(&action.input) {
            return Begin::Refused(Refusal::OtherInput(action_id));
        }
        let value = action.clone();
        let place = Place { reply, index };
        match place.begin() {
            ActionState::Waiting => Begin::Run(Authorized { value, place, settled: false }),
            ActionState::Begun => Begin::Running(Running(place)),
            ActionState::Done(receipt) => Begin::Done(receipt),
            ActionState::PassedOver => Begin::Refused(Refusal::PassedOver(action_id)),
            ActionState::Lost => Begin::Refused(Refusal::Lost(action_id)),
        }
    }
}

impl Place {
    /// The state before the call; `Waiting` becomes `Begun`.
    fn begin(&self) -> ActionState {
        let mut states = lock(&self.reply.states);
        let before = states[self.index].clone();
        if matches!(before, ActionState::Waiting) {
            states[self.index] = ActionState::Begun;
            if self.has_effect(self.index) {
                for earlier in &mut states[..self.index] {
                    if matches!(earlier, ActionState::Waiting) {
                        *earlier = ActionState::PassedOver;
                    }
                }
            }
        }
        before
    }

    fn has_effect(&self, index: usize) -> bool {
        match self.reply.actions[index].tool.kind() {
            ToolKind::Reads => false,
            ToolKind::Runs | ToolKind::Writes | ToolKind::Delegates => true,
        }
    }

    /// Whether something that stands before it still runs and must not overlap with it.
    fn must_wait(&self) -> bool {
        let states = lock(&self.reply.states);
        states[..self.index].iter().enumerate().any(|(earlier, state)| {
            matches!(state, ActionState::Begun) && (self.has_effect(self.index) || self.has_effect(earlier))
        })
    }

    fn settle(&self, state: ActionState) {
        lock(&self.reply.states)[self.index] = state;
        self.reply.changes.send_modify(|changes| *changes += 1);
    }
}

impl<T> Authorized<T> {
    /// What may be carried out.
    pub(crate) const fn get(&self) -> &T {
        &self.value
    }

    /// Waits until everything that stands before it and must not overlap with it has ended.
    pub(crate) async fn its_turn(&self) {
        let mut changes = self.place.reply.changes.subscribe();
        while self.place.must_wait() {
            if changes.changed().await.is_err() {
                return; // the sender lives in `self`
            }
        }
    }

    /// Ends it with its durable receipt, which this and every repeated call get.
    pub(crate) fn settle(mut self, receipt: Recorded<Receipt>) -> Released {
        let receipt = Arc::new(receipt);
        self.settled = true;
        self.place.settle(ActionState::Done(Arc::clone(&receipt)));
        receipt
    }
}

impl<T> Drop for Authorized<T> {
    fn drop(&mut self) {
        if !self.settled {
            self.place.settle(ActionState::Lost);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Authorized<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorized").field(&self.value).finish()
    }
}

impl Running {
    /// The receipt of the call that runs; none where it could not be recorded.
    pub(crate) async fn receipt(self) -> Option<Released> {
        let mut changes = self.0.reply.changes.subscribe();
        loop {
            match lock(&self.0.reply.states)[self.0.index].clone() {
                ActionState::Done(receipt) => return Some(receipt),
                ActionState::Begun => {}
                ActionState::Waiting | ActionState::PassedOver | ActionState::Lost => return None,
            }
            if changes.changed().await.is_err() {
                return None;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
