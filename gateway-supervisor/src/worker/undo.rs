//! The process that carries out an undo: the worker's program in another part, for one change of one file.
//!
//! It holds a lock for as long as it lives, whoever started it: so that nothing is found out about what it did before it is gone.
//!
//! Invariant: no secret on the command line or in the environment.
#![expect(clippy::disallowed_methods, reason = "the launcher of undos")]

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use protocol::{
    limits::FRAME_BYTES,
    recorded::Ack,
    wire::undo::{UndoLaunch, UndoSaid},
};
use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// Its standard error, in the session's folder, and its lock.
const LOG: &str = "undo.log";

/// How long it may take to stage, and to change: a large file on a slow disk, not a dead one.
const STEP: Duration = Duration::from_secs(20);

/// One that was told that it is over, or whose supervisor is gone, ends within this time.
const ENDING: Duration = Duration::from_secs(5);

/// How often it is looked whether it is gone.
const LOOK: Duration = Duration::from_millis(5);

/// A running undo.
pub(crate) struct Undoing {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Undoing {
    /// Starts one. It stages, and waits.
    ///
    /// # Errors
    /// Where there is no such program, the system refuses, or an earlier one still runs.
    pub(crate) async fn start(program: &Path, launch: &UndoLaunch) -> io::Result<Self> {
        let log = free(&launch.directory).await?;
        let mut command = Command::new(program);
        command.env_clear();
        #[cfg(feature = "crash-points")]
        command.envs(protocol::crash::variables());
        let mut child = command
            .arg("undo")
            .arg(&launch.directory)
            .env("CLAUDE_TOOLS_NATIVE_EXECUTOR", "1")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The lock goes with it.
            .stderr(log)
            .spawn()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("an undo has no standard input or output"));
        };
        let mut started = Self { child, to, from: BufReader::new(from) };
        started.say(launch).await?;
        Ok(started)
    }

    /// What it says next.
    ///
    /// # Errors
    /// Where it ended, says something else, or says nothing in time.
    pub(crate) async fn hear(&mut self) -> io::Result<UndoSaid> {
        let mut line = Vec::new();
        let limit = FRAME_BYTES as u64;
        let mut bounded = (&mut self.from).take(limit);
        timeout(STEP, bounded.read_until(b'\n', &mut line)).await??;
        if line.last() != Some(&b'\n') {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        serde_json::from_slice(&line).map_err(io::Error::other)
    }

    /// Lets it change what it staged.
    ///
    /// # Errors
    /// Where it is gone.
    pub(crate) async fn go(&mut self, ack: &Ack) -> io::Result<()> {
        self.say(ack).await
    }

    async fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        timeout(STEP, self.to.write_all(&line)).await?
    }

    /// Returns once it is gone: by itself where it can, else killed.
    pub(crate) async fn end(self) -> String {
        let Self { mut child, to, from } = self;
        drop((to, from));
        let ended = match timeout(ENDING, child.wait()).await {
            Ok(ended) => ended,
            Err(_) => match timeout(ENDING, child.kill()).await {
                Ok(killed) => match killed {
                    Ok(()) => child.wait().await,
                    Err(error) => Err(error),
                },
                Err(late) => Err(late.into()),
            },
        };
        match ended {
            Ok(status) => status.to_string(),
            Err(error) => format!("it can't be waited for: {error}"),
        }
    }
}

/// Waits for the end of an undo that another supervisor, or this one, started. Blocks.
///
/// # Errors
/// Where it does not end.
pub(crate) fn wait_until_gone(directory: &Path) -> io::Result<()> {
    let until = Instant::now() + ENDING;
    while lock(directory)?.is_none() {
        if Instant::now() > until {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// The lock, waited for: a process that is being started in this moment may hold a copy of an earlier one until it has its
/// program.
async fn free(directory: &Path) -> io::Result<File> {
    let until = Instant::now() + ENDING;
    loop {
        if let Some(log) = lock(directory)? {
            return Ok(log);
        }
        if Instant::now() > until {
            return Err(io::Error::other("an earlier undo of the session still runs"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The log with its lock; none where a process holds that.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(directory.join(LOG))?;
    match log.try_lock() {
        Ok(()) => Ok(Some(log)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
