//! The model's side of a sub-session: its requests go on to the configured endpoint, with the key and the fixed model's name.
//!
//! Invariant: the key leaves this process in one header of these requests, and nowhere else.
//! Invariant: there is one route. Whatever goes wrong ends the sub-session; nothing is asked again or anywhere else.

mod connect;
mod watch;

use std::{
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as HttpBody, Frame, Incoming};
use protocol::{
    crash,
    secret::{Secret, Token},
};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::server::Body;
use watch::Watch;

/// Largest request of a sub-session: its whole history, within its turn limit.
const REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// How an answer comes.
const STREAM: &str = "text/event-stream";

/// Pieces of an answer that may wait for the program.
const PIECES: usize = 16;

/// Where a sub-session's model is, and how it is asked.
pub(crate) struct Destination<'a> {
    /// The endpoint, without a slash at its end.
    pub(crate) url: String,
    /// The model's name there.
    pub(crate) model: String,
    /// The key.
    pub(crate) key: Secret<String>,
    /// The authorities that it is judged by; none for the system's.
    pub(crate) authorities: Option<&'a Path>,
    /// Requests that may be sent.
    pub(crate) turns: u32,
}

/// The forwarder. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Forward(Arc<Inner>);

struct Inner {
    secret: Token,
    uri: Uri,
    key: HeaderValue,
    model: String,
    turns: u32,
    sent: AtomicU32,
    /// Something went wrong: nothing is asked any more.
    over: AtomicBool,
    client: connect::Asking,
    trouble: mpsc::UnboundedSender<String>,
}

impl Forward {
    /// A forwarder for whoever knows `secret`. Its troubles come out of the receiver, each a public sentence.
    ///
    /// # Errors
    /// Where the endpoint is no address, or the system has no certificates to judge it by.
    pub(crate) fn new(
        secret: Token,
        destination: Destination<'_>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<String>), String> {
        let Destination { url, model, key, authorities, turns } = destination;
        let uri: Uri =
            format!("{url}/v1/messages").parse().map_err(|_| "the endpoint is no address".to_owned())?;
        let mut key =
            HeaderValue::from_str(key.expose()).map_err(|_| "the key can't stand in a header".to_owned())?;
        key.set_sensitive(true);
        let client = connect::client(authorities)?;
        let (trouble, troubles) = mpsc::unbounded_channel();
        let (sent, over) = (AtomicU32::new(0), AtomicBool::new(false));
        let inner = Inner { secret, uri, key, model, turns, sent, over, client, trouble };
        Ok((Self(Arc::new(inner)), troubles))
    }

    /// Requests that were sent so far.
    pub(crate) fn sent(&self) -> u32 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Answers a request of the sub-session's program.
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        let known =
            request.headers().get("x-api-key").is_some_and(|key| self.0.secret.matches(key.as_bytes()));
        if request.method() == Method::HEAD {
            return answer(StatusCode::OK, "");
        }
        if !known {
            tracing::warn!("refused a request without the sub-session's secret");
            return answer(StatusCode::UNAUTHORIZED, "the sub-session's secret is missing or wrong");
        }
        if request.method() != Method::POST || request.uri().path() != "/v1/messages" {
            return answer(StatusCode::NOT_FOUND, "there is nothing here");
        }
        match self.forward(request).await {
            Ok(response) => response,
            Err((status, why)) => {
                let told = answer(status, &why);
                self.trouble(why);
                told
            }
        }
    }

    fn trouble(&self, why: String) {
        self.0.over.store(true, Ordering::Relaxed);
        // Whoever listens may have heard enough.
        let _ = self.0.trouble.send(why);
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, (StatusCode, String)> {
        let bad = |why: &str| (StatusCode::BAD_REQUEST, why.to_owned());
        let body = Limited::new(request.into_body(), REQUEST_BYTES).collect().await;
        let body = body.map_err(|_| bad("its program sent a request that is cut or too large"))?.to_bytes();
        let Ok(Value::Object(fields)) = serde_json::from_slice(&body) else {
            return Err(bad("its program sent a request that is no JSON object"));
        };
        if fields.get("stream") != Some(&Value::Bool(true)) {
            // A probe of the program's own, which does without.
            return Ok(answer(StatusCode::BAD_REQUEST, "only streams are answered here"));
        }
        let asked = self.rewritten(fields);
        if self.0.over.load(Ordering::Relaxed) {
            return Err(bad("its model's endpoint failed before; it is not asked again"));
        }
        if self.0.sent.fetch_add(1, Ordering::Relaxed) >= self.0.turns {
            self.0.sent.fetch_sub(1, Ordering::Relaxed);
            return Err(bad(&format!("its limit of {} requests to the model is reached", self.0.turns)));
        }
        crash::point("worker-subsession-asks");
        let body = self.ask(asked).await?;
        let (pieces, taken) = mpsc::channel(PIECES);
        tokio::spawn(self.clone().pump(body, pieces));
        let mut answer = Response::new(Pieces(taken).boxed());
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(STREAM));
        Ok(answer)
    }

    /// The one request to the endpoint: the answer's body, where it is one.
    async fn ask(&self, asked: Bytes) -> Result<Incoming, (StatusCode, String)> {
        let outgoing = Request::post(self.0.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", self.0.key.clone())
            .body(Full::new(asked))
            .map_err(|_| (StatusCode::BAD_REQUEST, "the request could not be made".to_owned()))?;
        let gone = |why: &str| (StatusCode::BAD_GATEWAY, why.to_owned());
        let response = self.0.client.request(outgoing).await.map_err(|error| {
            tracing::warn!(%error, "a sub-session's model can't be asked");
            gone(&connect::why(&error))
        })?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err((status, format!("the model's endpoint answered {}", status.as_u16())));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with(STREAM)) {
            return Err(gone("the model's endpoint answered something that is not of the Messages API"));
        }
        Ok(response.into_body())
    }

    /// The request as it goes out: with the fixed model's name, and without what names the installation.
    fn rewritten(&self, mut fields: Map<String, Value>) -> Bytes {
        fields.insert("model".to_owned(), Value::from(self.0.model.as_str()));
        fields.remove("metadata");
        Bytes::from(Value::Object(fields).to_string())
    }

    /// Hands an answer on, and looks for what ends the sub-session: it is told before its program can see it.
    async fn pump(self, mut body: Incoming, pieces: mpsc::Sender<Bytes>) {
        let mut watch = Watch::default();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return self.trouble("the model's answer broke off".to_owned());
            };
            let Ok(piece) = frame.into_data() else { continue };
            if let Err(why) = watch.see(&piece) {
                return self.trouble(why);
            }
            if pieces.send(piece).await.is_err() {
                return;
            }
        }
        if let Err(why) = watch.end() {
            self.trouble(why);
        }
    }
}

/// An answer whose pieces come from a channel.
struct Pieces(mpsc::Receiver<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

fn answer(status: StatusCode, why: &str) -> Response<Body> {
    let text = serde_json::json!({"type": "error", "error": {"type": "api_error", "message": why}});
    let mut response = Response::new(Full::new(Bytes::from(text.to_string())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
