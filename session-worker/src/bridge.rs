//! The model turn bridge: what Claude Code takes for its model.
//!
//! A request of the conversation becomes a turn and waits for ChatGPT, for hours if need be; everything else is answered here
//! and now. Nothing is ever sent to a model.
//! Invariant: an open stream is never dropped while its run lives: Claude Code would fail the run.

pub(crate) mod gate;
mod messages;
mod stream;
#[cfg(test)]
mod tests;
pub(crate) mod turns;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use protocol::{
    id::{RunId, TurnId},
    recorded::Recorded,
    secret::Token,
    timestamp::Timestamp,
    turn::{Reply, Turn},
};
use tokio::{sync::mpsc, time::timeout};

use self::{
    gate::{Gate, Opened},
    messages::{Asked, Form, Purpose},
    stream::{Answer, Head},
    turns::{Place, Turns},
};
use crate::{executor::authorize::Authority, server::Body};

/// How often an open answer shows that it lives: well below every time-out of Claude Code, and rare enough to cost nothing.
const PING: Duration = Duration::from_secs(12);

/// The bridge. A clone is the same bridge.
#[derive(Debug, Clone)]
pub(crate) struct Bridge(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    secret: Token,
    authority: Authority,
    turns: Mutex<Turns>,
    /// Turns that Claude Code opened, for the loop to record.
    opened: mpsc::UnboundedSender<Turn>,
}

/// What came of a delivered reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Delivered {
    /// Claude Code has it.
    Released,
    /// It had gone through before, or its turn is not the newest one.
    NotAwaited,
}

impl Bridge {
    /// A bridge that opens to `secret`, and the end where its turns come out.
    pub(crate) fn new(secret: Token, authority: Authority) -> (Self, mpsc::UnboundedReceiver<Turn>) {
        // Unbounded, and yet at most one turn is in it: the next one opens only after this one was answered.
        let (opened, turns) = mpsc::unbounded_channel();
        (Self(Arc::new(Shared { secret, authority, turns: Mutex::default(), opened })), turns)
    }

    /// A run begins: the next request of the conversation is its first turn.
    pub(crate) fn begin(&self, run_id: RunId) {
        self.turns().begin(run_id);
    }

    /// The run is over.
    pub(crate) fn end(&self) {
        self.turns().end();
    }

    /// Lets a recorded reply through to Claude Code.
    pub(crate) fn deliver(&self, reply: Recorded<Reply>) -> Delivered {
        let gate = self.turns().gate(reply.get().turn_id).cloned();
        match gate.map(|gate| gate.open(&self.0.authority, reply)) {
            Some(Opened::Now) => Delivered::Released,
            Some(Opened::Before) | None => Delivered::NotAwaited,
        }
    }

    /// Answers a request for anything below `/v1` or `/api`.
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        let known = request
            .headers()
            .get("x-api-key")
            .is_some_and(|presented| self.0.secret.matches(presented.as_bytes()));
        match (request.method(), request.uri().path()) {
            (&Method::HEAD, "/api/hello") => respond(StatusCode::OK, Bytes::new()),
            (_, path) if path.starts_with("/v1/") && !known => {
                failed(StatusCode::UNAUTHORIZED, "authentication_error", "the key is not this session's")
            }
            (&Method::POST, "/v1/messages") => self.message(request.into_body()).await,
            (&Method::POST, "/v1/messages/count_tokens") => {
                respond(StatusCode::OK, Bytes::from_static(b"{\"input_tokens\":1}"))
            }
            _ => failed(StatusCode::NOT_FOUND, "not_found_error", "there is nothing here"),
        }
    }

    async fn message(&self, body: Incoming) -> Response<Body> {
        let asked = match messages::read(body).await {
            Ok(asked) => asked,
            Err(error) => {
                tracing::warn!(%error, "a request to the model can't be read");
                return failed(StatusCode::BAD_REQUEST, "invalid_request_error", &error.to_string());
            }
        };
        match asked.purpose {
            Purpose::Aside => aside(asked),
            Purpose::Conversation => self.conversation(asked),
        }
    }

    fn conversation(&self, asked: Asked) -> Response<Body> {
        let place = self.turns().place(asked.fingerprint, Timestamp::now());
        let (turn_id, gate) = match place {
            Place::Opens(turn, gate) => {
                let turn_id = turn.turn_id;
                tracing::info!(%turn_id, sequence = turn.sequence, "a turn opens");
                // The loop is gone only when the process ends.
                let _ = self.0.opened.send(turn);
                (turn_id, gate)
            }
            Place::Joins(turn_id, gate) => {
                tracing::info!(%turn_id, "a request joins its turn");
                (turn_id, gate)
            }
            Place::Nowhere => {
                tracing::warn!("a request of the conversation came without a run");
                return aside(asked);
            }
        };
        waiting(gate, asked.form, head(turn_id, asked.model))
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn head(turn_id: TurnId, model: String) -> Head {
    Head { id: format!("msg_{}", turn_id.to_string().trim_start_matches("turn_")), model }
}

/// An answer that is there at once and says nothing.
fn aside(asked: Asked) -> Response<Body> {
    let nothing = Answer { text: "OK", actions: &[] };
    let head = head(TurnId::mint(), asked.model);
    match asked.form {
        Form::Stream => {
            let parts = [stream::start(&head), stream::rest(nothing)].concat();
            typed("text/event-stream", full(Bytes::from(parts)))
        }
        Form::Whole => respond(StatusCode::OK, stream::whole(&head, nothing)),
    }
}

/// Where an answer that waits stands.
enum Step {
    Begin,
    Wait,
    End,
}

/// An answer whose headers go out at once and whose content comes through the gate.
fn waiting(gate: Gate, form: Form, head: Head) -> Response<Body> {
    let steps = unfold((Step::Begin, gate, head), move |(step, gate, head)| async move {
        let (bytes, next) = match step {
            Step::Begin => (begin(form, &head), Step::Wait),
            Step::Wait => match timeout(PING, gate.pass()).await {
                Err(_) => (alive(form), Step::Wait),
                Ok(reply) => (end(form, &head, reply.as_deref()), Step::End),
            },
            Step::End => return None,
        };
        Some((Ok::<_, Infallible>(Frame::data(bytes)), (next, gate, head)))
    });
    let kind = match form {
        Form::Stream => "text/event-stream",
        Form::Whole => "application/json",
    };
    typed(kind, BodyExt::boxed(StreamBody::new(steps)))
}

fn begin(form: Form, head: &Head) -> Bytes {
    match form {
        Form::Stream => stream::start(head),
        Form::Whole => Bytes::from_static(stream::BLANK.as_bytes()),
    }
}

fn alive(form: Form) -> Bytes {
    match form {
        Form::Stream => Bytes::from_static(stream::PING.as_bytes()),
        Form::Whole => Bytes::from_static(stream::BLANK.as_bytes()),
    }
}

fn end(form: Form, head: &Head, reply: Option<&Recorded<Reply>>) -> Bytes {
    match (form, reply) {
        (Form::Stream, Some(reply)) => stream::rest(reply.get().into()),
        (Form::Whole, Some(reply)) => stream::whole(head, reply.get().into()),
        (Form::Stream, None) => stream::abandoned(),
        (Form::Whole, None) => {
            Bytes::from(stream::failure("api_error", "the session's run is over").to_string())
        }
    }
}

fn full(bytes: Bytes) -> Body {
    if bytes.is_empty() { BodyExt::boxed(Empty::new()) } else { BodyExt::boxed(Full::new(bytes)) }
}

fn typed(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn respond(status: StatusCode, json: Bytes) -> Response<Body> {
    let mut response = typed("application/json", full(json));
    *response.status_mut() = status;
    response
}

fn failed(status: StatusCode, kind: &str, message: &str) -> Response<Body> {
    respond(status, Bytes::from(stream::failure(kind, message).to_string()))
}
