//! `gateway-supervisor serve`: from the settings to the ready line, and down again in good order.
//!
//! Invariant: the ready line is printed once, after every worker that ran before is attached or known to be gone.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use nix::sys::stat::{Mode, umask};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{gateway::Gateway, house::House, signals::Signals};
use crate::{
    config::{Config, ConfigError},
    control::{self, socket},
    ledger::{Ledger, LedgerError},
    mcp::{
        config::DoorConfig,
        server::{Door, ServeError},
        token::{Bearer, TokenError},
    },
    session::{keys::InstallKey, summary},
    worker::spawn::Program,
};

/// The worker's program, beside this one.
const WORKER: &str = "session-worker";

/// Why the supervisor does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeFailure {
    /// A setting can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ledger does not open.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The token does not open.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The address is taken or can't be listened on.
    #[error(
        "listening on {address}: {reason}; stop what uses it, or set CLAUDE_TOOLS_LISTEN to another loopback address"
    )]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        reason: io::Error,
    },
    /// The worker's program is missing.
    #[error("the worker's program {0} is not there; install it beside gateway-supervisor")]
    NoWorker(PathBuf),
    /// The door failed.
    #[error(transparent)]
    Door(#[from] ServeError),
    /// Something else of the system's.
    #[error("{attempt}: {reason}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        reason: io::Error,
    },
}

/// What is told once everything is there.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    event: &'static str,
    mcp_url: &'a str,
    token_file: &'a std::path::Path,
    pid: u32,
}

/// Serves until a signal says to go.
///
/// # Errors
/// Where it can't begin; nothing was changed then but what the state directory needs.
pub fn serve(config: Config) -> Result<(), ServeFailure> {
    // Whatever the caller's mask: nothing of the gateway's is anybody else's.
    let users = shut();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(system("starting the runtime"))?;
    let served = runtime.block_on(run(config, users));
    // A blocking look at a dead file system must not keep the process.
    runtime.shutdown_background();
    served
}

/// Takes everybody else's rights away, and returns what the user's own mask takes.
#[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "a mode has 16 bits on macOS"))]
fn shut() -> u32 {
    umask(Mode::from_bits_truncate(0o077)).bits().into()
}

async fn run(config: Config, umask: u32) -> Result<(), ServeFailure> {
    let mut signals = Signals::take().map_err(system("taking signals"))?;
    let worker = worker()?;
    let spawner = Box::new(Program(worker.clone()));
    let ledger = Ledger::open(&config.state, summary::summarise)?;
    let keys = InstallKey::open(&config.state).map_err(system("opening the install key"))?;
    let bearer = Arc::new(Bearer::open(&config.state)?);
    let listener = listen(&config).await?;
    let address = listener.local_addr().map_err(system("asking for the address"))?;
    let owners =
        socket::listen(&config.state, socket::CONTROL).map_err(system("opening the owner's socket"))?;
    let mcp_url = format!("http://{address}/mcp");
    let drain = CancellationToken::new();
    let (state, door) = (
        config.state.clone(),
        DoorConfig { response: config.response, text: config.text, ..DoorConfig::default() },
    );
    let gateway =
        Gateway::new(House { config, ledger, keys, umask, spawner, worker }, mcp_url.clone(), drain.clone());

    tokio::select! {
        () = gateway.attach() => {}
        () = signals.next() => {
            gateway.drain().await;
            return Ok(());
        }
    }
    let token_file = bearer.path().to_owned();
    let door = tokio::spawn(Door::new(gateway.clone(), bearer, door, drain.clone()).serve(listener));
    let owner = tokio::spawn(control::serve(owners, gateway.clone(), drain.clone()));
    ready(&Ready { event: "ready", mcp_url: &mcp_url, token_file: &token_file, pid: std::process::id() })
        .map_err(system("printing the ready line"))?;
    tracing::info!(%address, "ready");

    let served = until_the_end(door, &mut signals, &drain).await;
    tokio::select! {
        () = go_down(&gateway, owner) => {}
        () = signals.next() => tracing::warn!("a second signal: leaving at once"),
    }
    socket::remove(&state, socket::CONTROL);
    served
}

/// Serves until a signal, then until the door has let everybody out.
async fn until_the_end(
    mut door: tokio::task::JoinHandle<Result<(), ServeError>>,
    signals: &mut Signals,
    drain: &CancellationToken,
) -> Result<(), ServeFailure> {
    let ended = tokio::select! {
        ended = &mut door => ended,
        () = signals.next() => {
            tracing::info!("going down: waits end, commits finish, workers go on");
            drain.cancel();
            tokio::select! {
                ended = door => ended,
                () = signals.next() => return Ok(()),
            }
        }
    };
    match ended {
        Ok(served) => Ok(served?),
        Err(fault) => Err(ServeFailure::System { attempt: "serving", reason: io::Error::other(fault) }),
    }
}

async fn go_down(gateway: &Gateway, owner: tokio::task::JoinHandle<()>) {
    gateway.drain().await;
    owner.abort();
}

async fn listen(config: &Config) -> Result<TcpListener, ServeFailure> {
    TcpListener::bind(config.listen)
        .await
        .map_err(|reason| ServeFailure::Listen { address: config.listen, reason })
}

fn worker() -> Result<PathBuf, ServeFailure> {
    let own = std::env::current_exe().map_err(system("finding this program"))?;
    let worker = own.with_file_name(WORKER);
    if worker.is_file() { Ok(worker) } else { Err(ServeFailure::NoWorker(worker)) }
}

fn ready(line: &Ready<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn system(attempt: &'static str) -> impl Fn(io::Error) -> ServeFailure {
    move |reason| ServeFailure::System { attempt, reason }
}
