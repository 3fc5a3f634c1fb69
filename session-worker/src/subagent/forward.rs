//! The model's side of a sub-session: its requests go on to the configured endpoint, with the key and the fixed model's name.
//!
//! Invariant: the key leaves this process in one header of these requests, and nowhere else.
//! Invariant: there is one route. Whatever goes wrong ends the sub-session; nothing is asked again or anywhere else.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as HttpBody, Frame, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use protocol::secret::{Secret, Token};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::server::Body;

/// Largest request of a sub-session: its whole history, within its turn limit.
const REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// Pieces of an answer that may wait for the program.
const PIECES: usize = 16;

/// How an answer says that the model refuses.
const REFUSAL: &[u8] = b"\"stop_reason\":\"refusal\"";

/// Where a sub-session's model is, and how it is asked.
pub(crate) struct Destination {
    /// The endpoint, without a slash at its end.
    pub(crate) url: String,
    /// The model's name there.
    pub(crate) model: String,
    /// The key.
    pub(crate) key: Secret<String>,
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
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    trouble: mpsc::UnboundedSender<String>,
}

impl Forward {
    /// A forwarder for whoever knows `secret`. Its troubles come out of the receiver, each a public sentence.
    ///
    /// # Errors
    /// Where the endpoint is no address, or the system has no certificates to judge it by.
    pub(crate) fn new(
        secret: Token,
        destination: Destination,
    ) -> Result<(Self, mpsc::UnboundedReceiver<String>), String> {
        let Destination { url, model, key, turns } = destination;
        let uri: Uri =
            format!("{url}/v1/messages").parse().map_err(|_| "the endpoint is no address".to_owned())?;
        let mut key =
            HeaderValue::from_str(key.expose()).map_err(|_| "the key can't stand in a header".to_owned())?;
        key.set_sensitive(true);
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(|error| format!("the system's certificates can't be read: {}", error.kind()))?
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let (trouble, troubles) = mpsc::unbounded_channel();
        let sent = AtomicU32::new(0);
        let inner = Inner { secret, uri, key, model, turns, sent, client, trouble };
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
        // Whoever listens may have heard enough.
        let _ = self.0.trouble.send(why);
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, (StatusCode, String)> {
        let bad = |why: &str| (StatusCode::BAD_REQUEST, why.to_owned());
        let body = Limited::new(request.into_body(), REQUEST_BYTES).collect().await;
        let body = body.map_err(|_| bad("its program sent a request that is cut or too large"))?.to_bytes();
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&body) else {
            return Err(bad("its program sent a request that is no JSON object"));
        };
        fields.insert("model".to_owned(), Value::from(self.0.model.as_str()));
        // It names the program's installation, which is nobody's business there.
        fields.remove("metadata");
        if self.0.sent.fetch_add(1, Ordering::Relaxed) >= self.0.turns {
            self.0.sent.fetch_sub(1, Ordering::Relaxed);
            return Err(bad(&format!("its limit of {} requests to the model is reached", self.0.turns)));
        }
        let outgoing = Request::post(self.0.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", self.0.key.clone())
            .body(Full::new(Bytes::from(Value::Object(fields).to_string())))
            .map_err(|_| bad("the request could not be made"))?;
        let gone = |why: &str| (StatusCode::BAD_GATEWAY, why.to_owned());
        let response = self.0.client.request(outgoing).await.map_err(|error| {
            tracing::warn!(%error, "a sub-session's model can't be asked");
            gone("the model's endpoint can't be reached")
        })?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err((status, format!("the model's endpoint answered {}", status.as_u16())));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).cloned();
        let speaks = kind.as_ref().and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
            kind.starts_with("text/event-stream") || kind.starts_with("application/json")
        });
        let Some(kind) = kind.filter(|_| speaks) else {
            return Err(gone("the model's endpoint answered something that is not of the Messages API"));
        };
        let (pieces, taken) = mpsc::channel(PIECES);
        tokio::spawn(self.clone().pump(response.into_body(), pieces));
        let mut answer = Response::new(Pieces(taken).boxed());
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        Ok(answer)
    }

    /// Hands an answer on, and looks for the words that end the sub-session.
    async fn pump(self, mut body: Incoming, pieces: mpsc::Sender<Bytes>) {
        let mut window = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return self.trouble("the model's answer broke off".to_owned());
            };
            let Ok(piece) = frame.into_data() else { continue };
            window.extend(piece.iter().filter(|byte| !byte.is_ascii_whitespace()));
            if memchr::memmem::find(&window, REFUSAL).is_some() {
                self.trouble("the model refused the task".to_owned());
            }
            let over = window.len().saturating_sub(REFUSAL.len() - 1);
            window.drain(..over);
            if pieces.send(piece).await.is_err() {
                return;
            }
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
