//! What a worker is told at its birth: one JSON line on its standard input, which then closes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    id::{ClaudeSessionId, InstanceId, SessionId},
    profile::{Profile, SubagentPolicy},
    receipt::FileVersion,
    secret::Secret,
    subagent::SubsessionSummary,
    timestamp::Timestamp,
    workspace::RootIdentity,
};

/// Everything a worker needs to know before it is asked for anything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerLaunch {
    /// The session.
    pub session_id: SessionId,
    /// This process of the session.
    pub instance: InstanceId,
    /// The number of this process among the session's, from 1. Its records carry it.
    pub launch: u32,
    /// The key that both ends of the link prove to know.
    pub link_key: Secret<[u8; 32]>,
    /// The socket that the worker listens on.
    pub socket: PathBuf,
    /// The session's private folder.
    pub directory: PathBuf,
    /// When the lease ends, unless it is renewed over the link.
    pub expires_at: Timestamp,
    /// What the session may do.
    pub profile: Profile,
    /// Whether it may delegate.
    pub subagent_policy: SubagentPolicy,
    /// Canonical directory that the session works in.
    pub root: PathBuf,
    /// The identity that `root` must have at every write; none where the session writes nothing.
    #[serde(default)]
    pub root_identity: Option<RootIdentity>,
    /// The newest content of each file that the session has read or written so far.
    #[serde(default)]
    pub observed: Vec<FileVersion>,
    /// The user's own umask: what tools make new gets the modes that the user's programs would give it.
    #[serde(default = "usual_umask")]
    pub umask: u32,
    /// How Claude Code is started.
    pub claude: ClaudeLaunch,
    /// What is protected beyond the built-in list.
    pub protected: ProtectedRoots,
    /// The session's scratch for commands.
    pub scratch: PathBuf,
    /// Environment of commands, beyond what the worker adds itself.
    pub command_environment: Vec<(String, String)>,
    /// How tasks are delegated; none where the session may not.
    #[serde(default)]
    pub delegation: Option<Delegation>,
    /// The sub-sessions so far.
    #[serde(default)]
    pub subsessions: Vec<SubsessionSummary>,
}

/// How tasks are delegated: the one route, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// The program of a sub-session.
    pub program: PathBuf,
    /// Where its model is: HTTPS, or HTTP at a literal loopback address.
    pub url: String,
    /// The file with the key, 0600; none where the owner named none.
    pub key_file: Option<PathBuf>,
    /// Certificates of the authorities that the endpoint is judged by; none for the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The name of the fast model there.
    pub flash: String,
    /// The name of the strong model there.
    pub pro: String,
    /// How long a sub-session may take, in seconds.
    pub seconds: u64,
    /// Requests that it may send to its model.
    pub turns: u32,
}

const fn usual_umask() -> u32 {
    0o022
}

/// How Claude Code is started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaudeLaunch {
    /// The program.
    pub program: PathBuf,
    /// Claude Code's session id.
    pub session_id: ClaudeSessionId,
    /// Whether a process of this session has run before.
    pub resume: bool,
}

/// What the list of protected paths is made from.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProtectedRoots {
    /// Homes whose credential stores are protected (`$HOME` and the account's).
    pub homes: Vec<PathBuf>,
    /// The gateway's own folders.
    pub own: Vec<PathBuf>,
    /// Paths that the user added.
    pub added: Vec<PathBuf>,
}
