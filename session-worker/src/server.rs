//! The one HTTP port of a session: the bridge below `/v1`, the executor at `/mcp`.
//!
//! Invariant: every connection has TCP_NODELAY: without it each answer costs 40 ms.

use std::{convert::Infallible, io, net::TcpListener, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpStream, sync::Semaphore};

use crate::{bridge::Bridge, executor::endpoint::Endpoint, subagent::forward::Forward};

/// Body of every answer on the session's port.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// Connections at a time: Claude Code needs one for its turn and one for each call of a reply.
const CONNECTIONS: usize = 256;

/// How long a connection may take to send a request's head, and how long it may rest before its next one. Resting is no
/// fault, so this is long; it only has to be finite.
const HEAD: Duration = Duration::from_secs(600);

/// Largest piece of a request that is read at once: requests are megabytes, and none is ever needed whole.
const READ_BYTES: usize = 64 * 1024;

/// Who answers as the model.
#[derive(Clone)]
pub(crate) enum Model {
    /// ChatGPT, through the bridge.
    Bridge(Bridge),
    /// The model of a sub-session, through its forwarder.
    Forward(Forward),
}

/// What answers on the port.
#[derive(Clone)]
pub(crate) struct Routes {
    /// The model that Claude Code asks.
    pub(crate) model: Model,
    /// The tools that it calls.
    pub(crate) endpoint: Endpoint,
}

impl Routes {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match request.uri().path() {
            "/mcp" => self.endpoint.handle(request).await,
            _ => match &self.model {
                Model::Bridge(bridge) => bridge.handle(request).await,
                Model::Forward(forward) => forward.handle(request).await,
            },
        }
    }
}

/// Answers on a listener for as long as it is polled.
///
/// # Errors
/// Where the listener can't be used by the runtime.
pub(crate) async fn serve(listener: TcpListener, routes: Routes) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let routes = routes.clone();
                tokio::spawn(async move {
                    connection(stream, routes).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection on the session's port failed");
                // Out of descriptors: there is nothing to do but to let others finish.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, routes: Routes) {
    if let Err(error) = stream.set_nodelay(true) {
        return tracing::warn!(%error, "preparing a connection failed");
    }
    let service = service_fn(move |request| {
        let routes = routes.clone();
        async move { Ok::<_, Infallible>(routes.answer(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(READ_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection on the session's port ended");
    }
}
