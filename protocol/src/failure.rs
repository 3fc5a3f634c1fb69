//! What goes wrong, in the words the outside sees.
//!
//! Invariant: codes only grow; a code's text never changes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The code's text.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}

codes! {
    /// Codes of errors on the MCP surface.
    ErrorCode {
        /// An argument is missing, unknown, of the wrong type or out of bounds.
        InvalidArgument = "invalid_argument",
        /// Part of the contract that this installation does not offer.
        NotAvailable = "not_available",
        /// No such session.
        SessionNotFound = "session_not_found",
        /// The session has ended.
        SessionStopped = "session_stopped",
        /// The lease is not the newest one.
        LeaseStale = "lease_stale",
        /// The lease ran out.
        LeaseExpired = "lease_expired",
        /// The recovery token is not this session's.
        RecoveryDenied = "recovery_denied",
        /// Another conversation started the session.
        ConversationMismatch = "conversation_mismatch",
        /// The turn is not the open one.
        TurnStale = "turn_stale",
        /// The reply is over its limit.
        ReplyTooLarge = "reply_too_large",
        /// The session has no such tool.
        ToolNotAllowed = "tool_not_allowed",
        /// The key was used with another input.
        IdempotencyConflict = "idempotency_conflict",
        /// The session can't take this call in its present state.
        Busy = "busy",
        /// A cap is reached.
        LimitReached = "limit_reached",
        /// A process of the session did not start.
        LaunchFailed = "launch_failed",
        /// A wall can't be built on this machine.
        SandboxUnavailable = "sandbox_unavailable",
        /// The owner must acknowledge something first.
        RecoveryRequired = "recovery_required",
        /// The ledger can't be written or read.
        LedgerUnavailable = "ledger_unavailable",
        /// The gateway is going down.
        ShuttingDown = "shutting_down",
        /// A fault of the gateway itself.
        Internal = "internal",
        /// A file does not hold what it was to hold.
        StaleRead = "stale_read",
        /// The change was not made.
        NotApplied = "not_applied",
        /// Whether the change was made can't be known.
        Indeterminate = "indeterminate",
    }
}

codes! {
    /// Codes of errors of the tools inside a session.
    ToolErrorCode {
        /// No such file or directory.
        NotFound = "not_found",
        /// The file is not UTF-8.
        NotUtf8 = "not_utf8",
        /// Not a regular file.
        NotRegular = "not_regular",
        /// Over a limit.
        TooLarge = "too_large",
        /// The path is protected.
        ProtectedPath = "protected_path",
        /// The path is outside the session's root.
        OutsideRoot = "outside_root",
        /// The file's content is not the one that the session saw.
        StaleRead = "stale_read",
        /// The text to replace is not there.
        NoMatch = "no_match",
        /// The text to replace is there more than once.
        AmbiguousMatch = "ambiguous_match",
        /// The command is on the refusal list.
        RefusedCommand = "refused_command",
        /// Its time was over.
        TimedOut = "timed_out",
        /// The change was not made.
        NotApplied = "not_applied",
        /// Whether the change was made can't be known.
        Indeterminate = "indeterminate",
        /// An argument is missing, unknown, of the wrong type or out of bounds.
        InvalidArgument = "invalid_argument",
        /// The operating system denied it.
        DeniedBySystem = "denied_by_system",
        /// A barrier is up: a sub-session has the right to write.
        Busy = "busy",
        /// A fault of the gateway itself.
        Internal = "internal",
    }
}

/// An error as the MCP surface shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    /// The stable code.
    pub code: ErrorCode,
    /// One sentence: what was attempted and why it failed.
    pub message: Cow<'static, str>,
    /// Whether the same call can succeed later.
    pub retryable: bool,
    /// The exact call that gets further.
    pub next: Cow<'static, str>,
}

impl Failure {
    /// A failure that the same call will meet again.
    #[must_use]
    pub fn fixed(
        code: ErrorCode,
        message: impl Into<Cow<'static, str>>,
        next: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { code, message: message.into(), retryable: false, next: next.into() }
    }

    /// A failure that may be gone when the same call is made again.
    #[must_use]
    pub fn passing(
        code: ErrorCode,
        message: impl Into<Cow<'static, str>>,
        next: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { code, message: message.into(), retryable: true, next: next.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_and_text_agree_and_no_code_is_used_twice() {
        let texts: Vec<_> = ErrorCode::ALL.iter().map(|c| c.text()).collect();
        let mut sorted = texts.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), texts.len());
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.text());
        }
        for code in ToolErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.text());
        }
    }
}
