//! How the door answers, and its bounds.

use std::time::Duration;

use protocol::limits::{CALL, MCP_BODY_BYTES};

use super::failure::TextMode;

/// What of the libraries' own logs is worth keeping, as directives of a log filter. They report each client that leaves as an error of theirs,
/// and at `info` what clients say about themselves.
pub const LIBRARY_LOGS: &str = "rmcp=warn,rmcp::service=off,hyper=error";

/// How a response is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseMode {
    /// One JSON object; an event stream only where the client asked for progress and a call takes long enough to have some.
    #[default]
    Json,
    /// Always an event stream.
    Sse,
}

/// Bounds of the door. The defaults are the product's; tests shorten the times.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// For the whole header of a request, and between two requests of a kept connection: loopback clients need milliseconds.
    pub header: Duration,
    /// For the whole body of a request: 5 MiB over loopback take milliseconds, over a tunnel a few seconds.
    pub body: Duration,
    /// Bytes of a body: what the largest allowed reply needs.
    pub body_bytes: usize,
    /// Connections at once; the next one waits in the listener's queue. Below the usual limit of 1,024 descriptors.
    pub connections: usize,
    /// Calls that may wait at once, over all sessions. Below `connections`, so that the caller gets an error and not a queue.
    pub waiters: usize,
    /// After this a call is answered whatever happens.
    pub call: Duration,
    /// Between two progress notifications of a waiting call.
    pub progress: Duration,
    /// From the begin of the drain until the last commit is given up.
    pub drain: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(20),
            body: Duration::from_secs(30),
            body_bytes: MCP_BODY_BYTES,
            connections: 512,
            waiters: 256,
            call: CALL,
            progress: Duration::from_secs(10),
            drain: Duration::from_secs(2),
        }
    }
}

/// How the door answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct DoorConfig {
    /// How a response is framed.
    pub response: ResponseMode,
    /// What stands as text beside the structured content.
    pub text: TextMode,
    /// Its bounds.
    pub bounds: Bounds,
}
