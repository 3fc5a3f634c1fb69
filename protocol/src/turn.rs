//! A turn: one request of Claude Code to its model, waiting for ChatGPT; and ChatGPT's reply to it.

use serde::{Deserialize, Serialize};

use crate::{
    action::Action,
    id::{ReplyId, RunId, TurnId},
    timestamp::Timestamp,
};

/// A request of Claude Code to its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The turn.
    pub turn_id: TurnId,
    /// The run it belongs to.
    pub run_id: RunId,
    /// Its number in the run, from 1.
    pub sequence: u32,
    /// When Claude Code asked.
    pub opened_at: Timestamp,
    /// The reply whose results are what is new in it; none in the first turn of a run.
    pub answers: Option<TurnId>,
}

/// ChatGPT's answer to one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The client's key for it.
    pub reply_id: ReplyId,
    /// The turn it answers.
    pub turn_id: TurnId,
    /// Text; alone, it ends the run.
    pub text: Option<String>,
    /// Tool calls in the order in which they run.
    pub actions: Vec<Action>,
}

impl Reply {
    /// Whether it ends the run.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.actions.is_empty()
    }
}
