//! Keeps in touch with one worker from its start, or from its being found again, until it is gone.
//!
//! Invariant: it says `Gone` exactly once, last, and only when the worker's process and everything it left are gone.

use std::{future::Future, io, pin::Pin, time::Duration};

use protocol::{
    process_identity::ProcessIdentity,
    wire::{
        to_supervisor::{ToSupervisor, WorkerState},
        to_worker::ToWorker,
    },
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    link::{self, Connection, Incoming, Peer},
    orphans::{self, Marks},
    spawn::Born,
};
use crate::session::state::Launch;

/// A worker that was just started listens within this time, or it is ended.
const COMING_UP: Duration = Duration::from_secs(20);

/// A worker that ran before answers within this time, or it is ended: the start of the supervisor waits for it.
const FINDING: Duration = Duration::from_secs(3);

/// What a process that has ended said last is in the socket: reading it takes no longer, even if somebody else still holds the
/// other end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Between two tries to connect, at first and at most.
const TRY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// What happens to a worker.
#[derive(Debug)]
pub(crate) enum Happening {
    /// It is connected and proved who it is.
    Up {
        /// How it stands.
        state: WorkerState,
        /// Where messages to it go.
        sender: mpsc::UnboundedSender<ToWorker>,
    },
    /// It says something.
    Said(ToSupervisor),
    /// The connection is down; it is looked for.
    Down,
    /// It is gone.
    Gone(String),
}

/// A worker and how to recognise it.
pub(crate) struct Carrier {
    /// How it was started.
    pub(crate) launch: Launch,
    /// How it proves itself.
    pub(crate) peer: Peer,
    /// Its process, once known.
    pub(crate) identity: Option<ProcessIdentity>,
    /// What only its processes carry.
    pub(crate) marks: Marks,
    /// Cancelled when it is to be killed.
    pub(crate) kill: CancellationToken,
    /// Where it is told what happens.
    pub(crate) happenings: mpsc::Sender<(u32, Happening)>,
}

/// How it is seen that the process ended.
enum Pulse {
    Child(Pin<Box<dyn Future<Output = String> + Send>>),
    Ended(String),
    Stranger,
}

impl Carrier {
    /// Keeps in touch until the worker is gone, or nobody listens any more.
    pub(crate) async fn carry(mut self, born: Option<Born>) {
        let (mut pulse, mut patience) = match born {
            Some(born) => {
                self.identity = ProcessIdentity::of(born.pid).ok();
                (Pulse::Child(born.exited), COMING_UP)
            }
            None => (Pulse::Stranger, FINDING),
        };
        let detail = loop {
            let connection = match self.reach(&mut pulse, patience).await {
                Ok(connection) => connection,
                Err(detail) => break detail,
            };
            patience = FINDING;
            let state = connection.state.clone();
            self.identity = Some(state.identity.clone());
            let (sender, incoming) = connection.open();
            if !self.tell(Happening::Up { state, sender }).await || !self.listen(incoming, &mut pulse).await {
                // Nobody listens: the supervisor is going down, and the worker goes on without it.
                return;
            }
            if !self.tell(Happening::Down).await {
                return;
            }
        };
        if let Some(identity) = &self.identity {
            orphans::end(identity).await;
        }
        orphans::sweep(self.marks.clone()).await;
        self.tell(Happening::Gone(detail)).await;
    }

    async fn tell(&self, happening: Happening) -> bool {
        self.happenings.send((self.launch.number, happening)).await.is_ok()
    }

    /// Connects, or says why the worker is gone or has to go.
    async fn reach(&self, pulse: &mut Pulse, patience: Duration) -> Result<Connection, String> {
        let (until, mut pause) = (Instant::now() + patience, TRY.0);
        loop {
            if self.kill.is_cancelled() {
                return Err("it was told to end and did not".to_owned());
            }
            let mut connecting = std::pin::pin!(link::connect(&self.launch.socket, &self.peer));
            let (tried, ended) = tokio::select! {
                tried = &mut connecting => (tried, None),
                // One that let us in and ended has said why: what it said is in the socket.
                ended = pulse.ended(self.identity.as_ref()) => {
                    let last = tokio::time::timeout(LAST_WORDS, &mut connecting).await;
                    (last.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())), Some(ended))
                }
            };
            let refused = match tried {
                Ok(connection) => match self.recognise(&connection.state) {
                    Ok(()) => return Ok(connection),
                    Err(why) => why.to_owned(),
                },
                Err(error) => error.to_string(),
            };
            if let Some(ended) = ended {
                return Err(ended);
            }
            if Instant::now() > until {
                return Err(format!("it could not be reached: {refused}"));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.kill.cancelled() => {}
                ended = pulse.ended(self.identity.as_ref()) => return Err(ended),
            }
            pause = (pause * 2).min(TRY.1);
        }
    }

    fn recognise(&self, state: &WorkerState) -> Result<(), &'static str> {
        if state.instance != self.launch.instance || state.launch != self.launch.number {
            return Err("it is another worker of this session");
        }
        if self.identity.as_ref().is_some_and(|known| *known != state.identity) {
            return Err("its process is another one than the recorded");
        }
        Ok(())
    }

    /// Passes on what the worker says until the connection is down. False where nobody listens.
    async fn listen(&self, mut incoming: Incoming, pulse: &mut Pulse) -> bool {
        let happenings = self.happenings.clone();
        let number = self.launch.number;
        let mut pump = tokio::spawn(async move {
            loop {
                match incoming.next().await {
                    Ok(Some(said)) => {
                        if happenings.send((number, Happening::Said(said))).await.is_err() {
                            return false;
                        }
                    }
                    Ok(None) => return true,
                    Err(error) => {
                        tracing::warn!(%error, "the link to a worker failed");
                        return true;
                    }
                }
            }
        });
        tokio::select! {
            listened = &mut pump => listened.unwrap_or(true),
            () = self.kill.cancelled() => { pump.abort(); true }
            () = self.happenings.closed() => { pump.abort(); false }
            // What it said last is still in the socket: the pump reads it to its end.
            ended = pulse.child() => {
                *pulse = Pulse::Ended(ended);
                match tokio::time::timeout(LAST_WORDS, &mut pump).await {
                    Ok(listened) => listened.unwrap_or(true),
                    Err(_) => { pump.abort(); true }
                }
            }
        }
    }
}

impl Pulse {
    /// Resolves when the process has ended.
    async fn ended(&mut self, identity: Option<&ProcessIdentity>) -> String {
        match self {
            Self::Child(exited) => {
                let how = exited.await;
                *self = Self::Ended(how.clone());
                how
            }
            Self::Ended(how) => how.clone(),
            Self::Stranger => loop {
                if identity.is_some_and(|identity| !identity.is_alive()) {
                    return "its process is gone".to_owned();
                }
                tokio::time::sleep(TRY.1).await;
            },
        }
    }

    /// Resolves when a child has ended; never for a process that is none.
    async fn child(&mut self) -> String {
        match self {
            Self::Child(exited) => exited.await,
            Self::Ended(how) => how.clone(),
            Self::Stranger => std::future::pending().await,
        }
    }
}

/// Reads the records that a worker left for the supervisor in the session's folder.
///
/// # Errors
/// Where the file can't be read.
pub(crate) fn outbox(marks: &Marks) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(marks.directory.join(protocol::wire::outbox::FILE_NAME)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
