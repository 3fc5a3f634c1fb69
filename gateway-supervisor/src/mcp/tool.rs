//! The six tools, by name and in their fixed order.
//!
//! Invariant: names and order never change: clients keep a snapshot of them.

/// A tool of the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionTool {
    /// Starts a session.
    Start,
    /// Gives a session its next prompt.
    Continue,
    /// Rotates a session's lease.
    Recover,
    /// Answers the pending turn.
    Reply,
    /// Looks.
    Status,
    /// Ends a session.
    Stop,
}

impl SessionTool {
    /// All six, in the order in which they are listed.
    pub const ALL: [Self; 6] =
        [Self::Start, Self::Continue, Self::Recover, Self::Reply, Self::Status, Self::Stop];

    /// The name on the MCP surface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "native_session_start",
            Self::Continue => "native_session_continue",
            Self::Recover => "native_session_recover",
            Self::Reply => "native_session_reply_and_wait",
            Self::Status => "native_session_status",
            Self::Stop => "native_session_stop",
        }
    }

    /// The tool with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}
