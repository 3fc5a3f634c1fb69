//! The running Claude Code: prompts in, events out, and its end.
//!
//! Invariant: it leads a process group of its own, so that the whole of it can be ended.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use super::events::{self, Said};
use crate::reaper;

/// How much of the end of its stderr is kept for people.
const STDERR_BYTES: usize = 2 * 1024;

/// What it wrote before its end is read for so long after it: a descendant may hold the pipes open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long it may take to write its transcript and go when it is told to.
const GRACE: Duration = Duration::from_secs(3);

/// What Claude Code did.
#[derive(Debug)]
pub(crate) enum Event {
    /// It said something that matters.
    Said(Said),
    /// It is gone; how, for people.
    Gone(String),
}

/// How it is started.
#[derive(Debug)]
pub(crate) struct Program {
    /// The program.
    pub(crate) path: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Its whole environment.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// Its working folder.
    pub(crate) directory: PathBuf,
}

/// The running process.
#[derive(Debug)]
pub(crate) struct Claude {
    group: Option<u32>,
    prompts: mpsc::UnboundedSender<String>,
    gone: watch::Receiver<bool>,
}

impl Claude {
    /// Starts it.
    ///
    /// # Errors
    /// Where the program can't be started.
    pub(crate) fn start(program: Program, events: mpsc::Sender<Event>) -> io::Result<Self> {
        let mut child = Command::new(program.path)
            .args(program.arguments)
            .env_clear()
            .envs(program.environment)
            .current_dir(program.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id();
        // Unbounded, and yet one prompt at a time: the next run begins only when the last one is over.
        let (prompts, taken) = mpsc::unbounded_channel();
        if let Some(stdin) = child.stdin.take() {
            tokio::spawn(prompt(stdin, taken));
        }
        let (end, gone) = watch::channel(false);
        tokio::spawn(attend(child, events, end));
        Ok(Self { group, prompts, gone })
    }

    /// Gives it a prompt. Where it is gone, its end says so.
    pub(crate) fn prompt(&self, text: String) {
        let _ = self.prompts.send(text);
    }

    /// Ends it and its whole group: first in good order, so that its transcript is written, then for good.
    pub(crate) async fn end(mut self) {
        let Some(group) = self.group else { return };
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            if let Err(error) = reaper::signal_group(group, signal) {
                tracing::warn!(%error, "telling Claude Code to end failed");
            }
        }
        if timeout(GRACE, self.gone.wait_for(|gone| *gone)).await.is_err() {
            tracing::warn!("Claude Code did not end when it was told to; it is killed");
        }
        if let Err(error) = reaper::signal_group(group, Signal::SIGKILL) {
            tracing::warn!(%error, "killing Claude Code's process group failed");
        }
        // A killed leader is collected by the task that waits for it.
        let _ = timeout(GRACE, self.gone.wait_for(|gone| *gone)).await;
    }
}

async fn prompt(mut stdin: ChildStdin, mut prompts: mpsc::UnboundedReceiver<String>) {
    while let Some(text) = prompts.recv().await {
        let content = literal(text);
        let mut line = json!({"type": "user", "message": {"role": "user", "content": content}}).to_string();
        line.push('\n');
        if let Err(error) = stdin.write_all(line.as_bytes()).await {
            return tracing::warn!(%error, "giving Claude Code its prompt failed");
        }
    }
}

/// A prompt that Claude Code takes for a prompt: one that begins with a slash it would take for a command of its own, and
/// answer itself. ChatGPT is shown the prompt as it was given.
fn literal(prompt: String) -> String {
    if prompt.trim_start().starts_with('/') { format!("The prompt:\n{prompt}") } else { prompt }
}

/// Reads what the child says, waits for its end, and tells of both.
async fn attend(mut child: Child, events: mpsc::Sender<Event>, end: watch::Sender<bool>) {
    let said = child.stdout.take().map(|stdout| {
        let events = events.clone();
        tokio::spawn(events::read(stdout, move |said| {
            let events = events.clone();
            // The loop is gone only when the process ends.
            async move { drop(events.send(Event::Said(said)).await) }
        }))
    });
    let tail = Arc::new(Mutex::new(Vec::new()));
    let complained = child.stderr.take().map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&tail))));
    let status = child.wait().await;
    finish(said).await;
    finish(complained).await;
    let tail = std::mem::take(&mut *tail.lock().unwrap_or_else(PoisonError::into_inner));
    let how = how(status, &tail);
    // The end is known before anybody is told, so that whoever is told need not wait for it.
    end.send_replace(true);
    let _ = events.send(Event::Gone(how)).await;
}

async fn finish(task: Option<JoinHandle<()>>) {
    if let Some(mut task) = task
        && timeout(LAST_WORDS, &mut task).await.is_err()
    {
        task.abort();
    }
}

/// Keeps the end of a stream.
async fn listen(mut stream: impl AsyncRead + Unpin, tail: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; STDERR_BYTES];
    while let Ok(got @ 1..) = stream.read(&mut piece).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(piece.get(..got).unwrap_or_default());
        let over = tail.len().saturating_sub(STDERR_BYTES);
        tail.drain(..over);
    }
}

fn how(status: io::Result<ExitStatus>, stderr: &[u8]) -> String {
    use std::os::unix::process::ExitStatusExt;
    let end = match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no exit code".to_owned(),
        },
        Err(error) => format!("its end can't be known: {error}"),
    };
    let words = String::from_utf8_lossy(stderr);
    let words: String = words.trim().chars().filter(|c| !c.is_control() || *c == '\n').collect();
    if words.is_empty() { end } else { format!("{end}; its last words: {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_never_a_command() {
        for prompt in ["/help", " \n/compact now"] {
            let given = literal(prompt.to_owned());
            assert!(!given.trim_start().starts_with('/') && given.ends_with(prompt));
        }
        assert_eq!(literal("Look at /etc".to_owned()), "Look at /etc");
    }
}
