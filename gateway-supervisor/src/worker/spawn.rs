//! Starts a worker: its folder on the command line, everything else as one line on its standard input.
//!
//! Invariant: no secret on the command line or in the environment.
#![expect(clippy::disallowed_methods, reason = "the launcher of workers")]

use std::{
    fs::{DirBuilder, File, OpenOptions},
    future::Future,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
    pin::Pin,
    process::Stdio,
};

use protocol::wire::launch::WorkerLaunch;
use tokio::process::Command;

/// What the worker writes to stderr, in the session's folder.
const LOG: &str = "worker.log";

/// A worker that was just started.
pub(crate) struct Born {
    /// Its pid.
    pub(crate) pid: u32,
    /// Resolves to how it ended.
    pub(crate) exited: Pin<Box<dyn Future<Output = String> + Send>>,
}

/// Starts workers.
pub(crate) trait Spawn: Send + Sync + 'static {
    /// Starts one. Must be called within the runtime.
    ///
    /// # Errors
    /// Where there is no such program, or the system refuses.
    fn spawn(&self, launch: &WorkerLaunch) -> io::Result<Born>;
}

/// Starts the worker's program.
#[derive(Debug, Clone)]
pub(crate) struct Program(pub(crate) PathBuf);

impl Spawn for Program {
    fn spawn(&self, launch: &WorkerLaunch) -> io::Result<Born> {
        DirBuilder::new().recursive(true).mode(0o700).create(&launch.scratch)?;
        let mut command = Command::new(&self.0);
        command.env_clear();
        #[cfg(feature = "crash-points")]
        command.envs(protocol::crash::variables());
        let mut child = command
            .arg(&launch.directory)
            .env("CLAUDE_TOOLS_NATIVE_EXECUTOR", "1")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log(launch)?)
            .spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("the worker ended at once"))?;
        tell(&mut child, launch)?;
        Ok(Born {
            pid,
            exited: Box::pin(async move {
                match child.wait().await {
                    Ok(status) => format!("its process ended: {status}"),
                    Err(error) => format!("its process can't be waited for: {error}"),
                }
            }),
        })
    }
}

/// The line may be larger than a pipe's buffer: whoever writes it waits for the worker, so that is a thread of its own. A
/// worker that gets no whole line ends, and that is seen.
fn tell(child: &mut tokio::process::Child, launch: &WorkerLaunch) -> io::Result<()> {
    let stdin = child.stdin.take().ok_or_else(|| io::Error::other("the worker has no standard input"))?;
    let mut line = serde_json::to_vec(launch)?;
    line.push(b'\n');
    let mut stdin = File::from(stdin.into_owned_fd()?);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = stdin.write_all(&line) {
            tracing::error!(%error, "a worker could not be told what it is for");
        }
    });
    Ok(())
}

fn log(launch: &WorkerLaunch) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(launch.directory.join(LOG))
}
