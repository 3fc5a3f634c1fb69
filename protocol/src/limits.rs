//! Bounds, each with its reason.

use std::time::Duration;

/// Largest frame between supervisor and worker: one reply of 768 KiB with its envelope fits, nothing much larger does.
pub const FRAME_BYTES: usize = 1024 * 1024;

/// Largest prompt: ChatGPT's own message limit is below it, and it travels in one frame with the skills.
pub const PROMPT_BYTES: usize = 64 * 1024;

/// All skill bodies of a session together: they are shown in one turn.
pub const SKILL_BYTES: usize = 64 * 1024;

/// Skills of one session.
pub const SKILLS: usize = 8;

/// Characters of a key, a label or a reason that a client chooses.
pub const KEY_CHARS: usize = 200;

/// Text and canonical inputs of one reply: what fits a frame with room for the envelope.
pub const REPLY_BYTES: usize = 768 * 1024;

/// Tool calls of one reply.
pub const REPLY_CALLS: usize = 32;

/// Content of one receipt: what ChatGPT can read of one result in one turn.
pub const RECEIPT_BYTES: usize = 64 * 1024;

/// Text of one pending turn before JSON escaping; `CLAUDE_TOOLS_TURN_KIB` sets another.
pub const TURN_BYTES: usize = 80 * 1024;

/// How much of the prompt its own first turn shows.
pub const PROMPT_PREVIEW_BYTES: usize = 4 * 1024;

/// HTTP request body on `/mcp`: a reply of [`REPLY_BYTES`] with every character escaped as `\u00XX` is 4.5 MiB.
pub const MCP_BODY_BYTES: usize = 5 * 1024 * 1024;

/// Longest `wait_seconds`.
pub const WAIT_SECONDS: u64 = 50;

/// A call answers within this time whatever happens: the strictest known client cuts at 59.8 s.
pub const CALL: Duration = Duration::from_secs(55);

/// Calls that may wait for one session at the same time.
pub const WAITERS: usize = 32;

/// Lease when nothing else is configured.
pub const LEASE: Duration = Duration::from_secs(12 * 3600);

/// Shortest lease that can be configured.
pub const LEASE_MIN: Duration = Duration::from_secs(3);

/// Longest lease that can be configured.
pub const LEASE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Longest preview of one line in a search result.
pub const LINE_PREVIEW_BYTES: usize = 2_000;

/// Time-out of a command that names none.
pub const COMMAND: Duration = Duration::from_secs(120);

/// Longest time-out of a command.
pub const COMMAND_MAX: Duration = Duration::from_secs(3_600);

/// Hello and proof on the link: both ends are local processes that answer at once.
pub const HANDSHAKE: Duration = Duration::from_secs(5);

/// Records that a worker may have sent without an acknowledgement.
pub const UNACKNOWLEDGED: usize = 64;

/// Final text of a run that a record keeps.
pub const RESULT_BYTES: usize = REPLY_BYTES;

/// Contents of files that a session keeps for showing and undoing its changes, all together: some hundred versions of a
/// large source tree's files. The oldest go first.
pub const VERSIONS_BYTES: u64 = 512 * 1024 * 1024;

/// The largest text that is edited, before or after. A larger one is generated data that a brain cannot have read, and each
/// version of it is kept for undo.
pub const TEXT_BYTES: usize = 64 * 1024 * 1024;

/// Files whose observed content a new process of a session is told: at 250 bytes each far below what a launch may hold.
/// The oldest are left out; they have to be read again before they are changed.
pub const OBSERVED_FILES: usize = 20_000;

/// What a worker is told at its birth: [`OBSERVED_FILES`] with long paths, and everything else.
pub const LAUNCH_BYTES: u64 = 16 * 1024 * 1024;

/// Final text of a sub-session that a record keeps: an answer to one task, of which the files hold the work.
pub const SUBSESSION_TEXT_BYTES: usize = 8 * 1024;

/// How long a sub-session may take: a task that needs more is to be cut into several.
pub const SUBSESSION: Duration = Duration::from_secs(1_800);

/// Longest time of a sub-session that can be configured.
pub const SUBSESSION_MAX: Duration = Duration::from_secs(12 * 3_600);

/// Requests that a sub-session may send to its model: each costs its owner money.
pub const SUBSESSION_TURNS: u32 = 100;

/// One answer of a sub-session's model: some hundred times the longest that a model writes, with the stream around it.
pub const SUBSESSION_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Tool calls in one answer of a sub-session's model: each is an action with its records.
pub const SUBSESSION_CALLS: usize = 128;
