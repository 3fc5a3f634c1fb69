//! The listener: connections within their bounds, and a drain that loses nothing.
//!
//! The drain: no new connection; every wait ends at once with its view; idle connections close; commits get their time; what is
//! then still open is cut.
//!
//! Invariant: it listens on loopback or not at all.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{call::Desk, config::DoorConfig, sessions::Sessions, token::Bearer, transport::Transport};

/// Request heads are read into this: names, a token and the six headers of MCP need 2 KiB.
const HEAD_BYTES: usize = 32 * 1024;

/// After a failed accept (no descriptors left), so that the loop does not spin until one is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The door.
pub struct Door<S: Sessions> {
    transport: Arc<Transport<S>>,
    desk: Arc<Desk<S>>,
    config: DoorConfig,
    /// Ends every response that is still open.
    cut: CancellationToken,
}

/// Why the door does not open.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not loopback.
    #[error(
        "listening on {0}: only a loopback address (127.0.0.1 or [::1]) is served; set CLAUDE_TOOLS_LISTEN to one"
    )]
    NotLoopback(SocketAddr),
    /// The listener can't be used.
    #[error("listening for MCP clients: {0}")]
    Io(#[from] io::Error),
}

impl<S: Sessions> Door<S> {
    /// A door to these sessions. It drains when `drain` is cancelled.
    #[must_use]
    pub fn new(sessions: S, bearer: Arc<Bearer>, config: DoorConfig, drain: CancellationToken) -> Self {
        let desk = Arc::new(Desk {
            sessions,
            text: config.text,
            bounds: config.bounds,
            drain,
            work: TaskTracker::new(),
            waiters: Arc::new(Semaphore::new(config.bounds.waiters)),
        });
        let cut = CancellationToken::new();
        let transport = Arc::new(Transport::new(Arc::clone(&desk), bearer, config, cut.clone()));
        Self { transport, desk, config, cut }
    }

    /// Serves until the drain, and drains. When it returns, every commit is done or out of time, and no connection is open.
    ///
    /// # Errors
    /// Where the listener is not loopback or can't be used.
    pub async fn serve(self, listener: TcpListener) -> Result<(), ServeError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let places = Arc::new(Semaphore::new(self.config.bounds.connections));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let drain = self.desk.drain.clone();
        loop {
            let place = tokio::select! {
                biased;
                () = drain.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            let stream = tokio::select! {
                biased;
                () = drain.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match stream {
                Ok((stream, _)) => {
                    let connection = graceful.watch(self.connection(stream));
                    connections.spawn(async move {
                        // A connection's end is its client's business; what it asked for is logged where it was done.
                        if let Err(error) = connection.await {
                            tracing::debug!(%error, "a connection ended early");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        self.drain(graceful, connections).await;
        Ok(())
    }

    fn connection(
        &self,
        stream: TcpStream,
    ) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> + Send + use<S> {
        // Without it small answers wait 40 ms for an acknowledgement; where it can't be set they are slow and right.
        let _ = stream.set_nodelay(true);
        let transport = Arc::clone(&self.transport);
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.config.bounds.header)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    let transport = Arc::clone(&transport);
                    async move { transport.answer(request).await }
                }),
            )
    }

    async fn drain(self, graceful: GracefulShutdown, mut connections: JoinSet<()>) {
        let end = Instant::now() + self.config.bounds.drain;
        self.desk.work.close();
        let quiet = async {
            graceful.shutdown().await;
            self.desk.work.wait().await;
        };
        if timeout_at(end, quiet).await.is_err() {
            tracing::warn!(
                calls = self.desk.work.len(),
                "the time to drain is over; what is still open is cut"
            );
        }
        self.cut.cancel();
        connections.shutdown().await;
    }
}
