//! One proven connection to the supervisor: messages in and out.

use std::io;

use protocol::{
    crash,
    subagent::SubsessionEvent,
    wire::{
        frame::{self, FrameError},
        to_supervisor::{ToSupervisor, WorkerRecord},
        to_worker::ToWorker,
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinHandle,
};

/// What a connection brings. It carries the connection's number, because an older one may still speak.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message.
    Message(u64, ToWorker),
    /// The connection is over.
    Closed(u64),
}

/// A connection that is being served.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    outgoing: mpsc::UnboundedSender<ToSupervisor>,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Connection {
    /// Serves a stream whose other end has proved itself.
    pub(crate) fn serve<S>(stream: S, number: u64, inbox: mpsc::Sender<Incoming>) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (receiving, sending) = tokio::io::split(stream);
        // Unbounded, and yet bounded by what the loop has to say: the records that are not acknowledged, and a few words.
        let (outgoing, messages) = mpsc::unbounded_channel();
        Self {
            number,
            outgoing,
            reader: tokio::spawn(read(receiving, number, inbox)),
            writer: tokio::spawn(write(sending, messages)),
        }
    }

    /// Its number.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Sends a message. Where the connection is over its reader says so.
    pub(crate) fn send(&self, message: ToSupervisor) {
        let _ = self.outgoing.send(message);
    }

    /// Sends what is left and closes.
    pub(crate) async fn finish(mut self) {
        self.reader.abort();
        let (closed, _) = mpsc::unbounded_channel();
        drop(std::mem::replace(&mut self.outgoing, closed));
        let _ = (&mut self.writer).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
    }
}

async fn read<S: AsyncRead + Unpin>(mut stream: S, number: u64, inbox: mpsc::Sender<Incoming>) {
    loop {
        let message = match frame::receive(&mut stream).await {
            Ok(Some(message)) => Incoming::Message(number, message),
            Ok(None) => break,
            Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => {
                tracing::warn!(%error, "the link to the supervisor failed");
                break;
            }
        };
        if inbox.send(message).await.is_err() {
            return;
        }
    }
    let _ = inbox.send(Incoming::Closed(number)).await;
}

async fn write<S: AsyncWrite + Unpin>(mut stream: S, mut messages: mpsc::UnboundedReceiver<ToSupervisor>) {
    while let Some(message) = messages.recv().await {
        if let Err(error) = frame::send(&mut stream, &message).await {
            tracing::warn!(%error, "sending to the supervisor failed");
            return;
        }
        sent(&message);
    }
}

/// Where a test may kill: a record is on its way, and its acknowledgement is not here.
fn sent(message: &ToSupervisor) {
    let ToSupervisor::Record { what, .. } = message else { return };
    match what {
        WorkerRecord::Prepared(_) | WorkerRecord::Subsession { event: SubsessionEvent::Prepared(_), .. } => {
            crash::point("worker-after-prepared-sent");
        }
        WorkerRecord::Receipt(_) | WorkerRecord::Subsession { event: SubsessionEvent::Receipt(_), .. } => {
            crash::point("worker-after-receipt-sent");
        }
        WorkerRecord::Subsession { event: SubsessionEvent::Called(_), .. } => {
            crash::point("worker-after-called-sent");
        }
        WorkerRecord::Subsession { event: SubsessionEvent::Ended(_), .. } => {
            crash::point("worker-after-end-sent");
        }
        WorkerRecord::Subsession { event: SubsessionEvent::Resolved { .. }, .. }
        | WorkerRecord::ClaudeStarted { .. }
        | WorkerRecord::TurnOpened(_)
        | WorkerRecord::RunEnded { .. }
        | WorkerRecord::ClaudeGone { .. } => {}
    }
}
