//! How long Claude Code may take from its first prompt to the first question to its model.
//!
//! Invariant: a process that never asks is a failed start, not a session that starts for ever.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// It asks after half a second. A disk that is cold, a program that the system looks through first, and a machine that is
/// busy make it some seconds.
const PATIENCE: Duration = Duration::from_secs(90);

/// The end of the patience with a Claude Code that has its first prompt.
#[derive(Debug, Default)]
pub(super) struct ComingUp(Option<Instant>);

impl ComingUp {
    /// It has its first prompt.
    pub(super) fn prompted(&mut self) {
        self.0.get_or_insert_with(|| Instant::now() + PATIENCE);
    }

    /// Resolves when it has had its time; never before it has a prompt.
    pub(super) async fn over(&self) {
        match self.0 {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// What its user is told.
    pub(super) fn failure() -> String {
        format!(
            "Claude Code did not ask for anything within {} s of its prompt and was ended; see whether CLAUDE_BIN is Claude Code",
            PATIENCE.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_patience_begins_with_the_first_prompt_and_is_not_renewed() {
        let mut coming_up = ComingUp::default();
        assert!(
            timeout(Duration::ZERO, coming_up.over()).await.is_err(),
            "without a prompt nothing is asked"
        );
        coming_up.prompted();
        let until = coming_up.0;
        coming_up.prompted();
        assert!(until.is_some() && coming_up.0 == until);
        assert!(timeout(Duration::ZERO, coming_up.over()).await.is_err());
        ComingUp(Some(Instant::now())).over().await;
    }
}
