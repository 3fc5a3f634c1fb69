//! One connection to a worker: made, proven, and pumped.
//!
//! Invariant: what comes out of it was said by the process that proved to know the session's link key.

use std::{io, path::Path, sync::Arc, time::Duration};

use interprocess::local_socket::{GenericFilePath, ToFsName as _, tokio::Stream, traits::tokio::Stream as _};
use protocol::{
    crash,
    id::SessionId,
    secret::Secret,
    wire::{
        frame,
        hello::{self, Role},
        to_supervisor::{ToSupervisor, WorkerState},
        to_worker::ToWorker,
    },
};
use tokio::sync::mpsc;

use crate::control::socket::require_own_peer;

/// A proven worker says how it stands at once.
const FIRST_MESSAGE: Duration = Duration::from_secs(5);

/// How a worker is recognised.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The session.
    pub(crate) session_id: SessionId,
    /// The key that both ends know.
    pub(crate) key: Secret<[u8; 32]>,
}

/// A connection that is up.
#[derive(Debug)]
pub(crate) struct Connection {
    /// How the worker stands.
    pub(crate) state: WorkerState,
    stream: Arc<Stream>,
}

/// Connects to the worker that listens at `socket`.
///
/// # Errors
/// Where nobody listens there, or the one who does is not this session's worker.
pub(crate) async fn connect(socket: &Path, peer: &Peer) -> io::Result<Connection> {
    let mut stream = Stream::connect(socket.to_fs_name::<GenericFilePath>()?).await?;
    require_own_peer(&stream)?;
    hello::exchange(&mut stream, Role::Supervisor, peer.session_id, &peer.key)
        .await
        .map_err(io::Error::other)?;
    let first = tokio::time::timeout(FIRST_MESSAGE, frame::receive(&mut stream))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        .map_err(io::Error::other)?;
    match first {
        Some(ToSupervisor::Attached(state)) => Ok(Connection { state, stream: Arc::new(stream) }),
        Some(ToSupervisor::Record { .. } | ToSupervisor::Ended(_) | ToSupervisor::Bye) | None => {
            Err(io::Error::other("the worker did not say how it stands"))
        }
    }
}

impl Connection {
    /// Starts sending; what is put into the returned end goes out in its order. Returns the receiving half.
    pub(crate) fn open(self) -> (mpsc::UnboundedSender<ToWorker>, Incoming) {
        let (sender, mut messages) = mpsc::unbounded_channel::<ToWorker>();
        let outgoing = Arc::clone(&self.stream);
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                before(&message);
                if let Err(error) = frame::send(&mut &*outgoing, &message).await {
                    // The receiving half sees the same end and reports it.
                    tracing::debug!(%error, "sending to a worker failed");
                    break;
                }
                after(&message);
            }
        });
        (sender, Incoming(self.stream))
    }
}

fn before(message: &ToWorker) {
    match message {
        ToWorker::DeliverReply { .. } => crash::point("supervisor-before-reply"),
        ToWorker::BeginRun { .. }
        | ToWorker::Ack(_)
        | ToWorker::Conflict { .. }
        | ToWorker::Lease { .. }
        | ToWorker::Stop(_)
        | ToWorker::Bye => {}
    }
}

fn after(message: &ToWorker) {
    match message {
        ToWorker::DeliverReply { .. } => crash::point("supervisor-after-reply"),
        ToWorker::Ack(_) => crash::point("supervisor-after-ack"),
        ToWorker::BeginRun { .. }
        | ToWorker::Conflict { .. }
        | ToWorker::Lease { .. }
        | ToWorker::Stop(_)
        | ToWorker::Bye => {}
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Incoming(Arc<Stream>);

impl Incoming {
    /// The next message; none where the worker closed the connection. Not cancel-safe.
    ///
    /// # Errors
    /// Where the stream fails or carries something else.
    pub(crate) async fn next(&mut self) -> Result<Option<ToSupervisor>, frame::FrameError> {
        frame::receive(&mut &*self.0).await
    }
}
