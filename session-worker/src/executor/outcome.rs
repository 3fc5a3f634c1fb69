//! What a tool hands back, before it is a receipt.

use protocol::{
    action::Action,
    failure::ToolErrorCode,
    id::ActionId,
    limits::RECEIPT_BYTES,
    receipt::{Facts, Receipt},
    timestamp::Timestamp,
};

use super::display;

/// Why a tool did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct ToolFailure {
    /// The stable code.
    pub(crate) code: ToolErrorCode,
    /// What was attempted, on what, why it failed, what to do next.
    pub(crate) message: String,
}

impl ToolFailure {
    pub(crate) fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The outcome of a tool's work.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub(crate) struct ToolOutcome {
    error: Option<ToolErrorCode>,
    is_error: bool,
    content: String,
    facts: Facts,
}

impl ToolOutcome {
    /// The work was done.
    pub(crate) const fn done(content: String, facts: Facts) -> Self {
        Self { error: None, is_error: false, content, facts }
    }

    /// The work was not done.
    pub(crate) fn failed(failure: &ToolFailure) -> Self {
        Self { error: Some(failure.code), is_error: true, content: failure.to_string(), facts: Facts::None }
    }

    /// The work was done and its result is to be read as an error: a command that exits with 1.
    pub(crate) const fn done_badly(content: String, facts: Facts) -> Self {
        Self { error: None, is_error: true, content, facts }
    }

    /// The receipt of `action`, which began at `began_at` and ends now. Its content is within [`RECEIPT_BYTES`]
    /// whatever the tool wrote.
    pub(crate) fn into_receipt(self, action: &Action, began_at: Timestamp) -> Receipt {
        self.into_receipt_of(action.action_id, began_at)
    }

    /// The same, for an action that only its id names.
    pub(crate) fn into_receipt_of(self, action_id: ActionId, began_at: Timestamp) -> Receipt {
        Receipt {
            action_id,
            began_at,
            ended_at: Timestamp::now(),
            error: self.error,
            is_error: self.is_error,
            content: capped(self.content),
            facts: self.facts,
        }
    }
}

impl From<Result<ToolOutcome, ToolFailure>> for ToolOutcome {
    fn from(result: Result<ToolOutcome, ToolFailure>) -> Self {
        result.unwrap_or_else(|failure| Self::failed(&failure))
    }
}

fn capped(mut content: String) -> String {
    const NOTE: &str = "\n[cut: a result holds at most 64 KiB]";
    if content.len() > RECEIPT_BYTES {
        content.truncate(display::start(&content, RECEIPT_BYTES - NOTE.len()).len());
        content.push_str(NOTE);
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_within_its_limit_and_valid_text() {
        for filler in ["x", "é", "€", "😀"] {
            let long = filler.repeat(RECEIPT_BYTES + 1);
            let cut = capped(long);
            assert!(cut.len() <= RECEIPT_BYTES && cut.len() > RECEIPT_BYTES - 8);
            assert!(cut.ends_with("64 KiB]"));
        }
        let exact = "x".repeat(RECEIPT_BYTES);
        assert_eq!(capped(exact.clone()), exact);
    }

    #[test]
    fn a_command_that_failed_is_an_error_without_a_code() {
        let outcome = ToolOutcome::done_badly("exit code: 1".to_owned(), Facts::None);
        assert!(outcome.is_error && outcome.error.is_none());
    }
}
