//! The running Claude Code: prompts in, events out, and its end.
//!
//! Invariant: it runs in its cage or not at all; the cage's end is the end of everything in it [P3, P4].

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sandbox_profiles::{
    AbsolutePath, SandboxSpec, WallError,
    launch::{self, Caged, ClaudeCage, Ending, Request},
};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use super::events::{self, Said};

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
    /// The only folder that it writes: its own home.
    pub(crate) home: PathBuf,
}

/// The running process.
#[derive(Debug)]
pub(crate) struct Claude {
    caged: Arc<Caged>,
    prompts: mpsc::UnboundedSender<String>,
    gone: watch::Receiver<bool>,
}

impl Claude {
    /// Starts it in its cage.
    ///
    /// # Errors
    /// Where a wall can't be built, or the program can't be started behind it.
    pub(crate) fn start(
        cage: ClaudeCage,
        program: Program,
        events: mpsc::Sender<Event>,
    ) -> Result<Self, WallError> {
        let streams = |source| WallError::Build { step: "connecting Claude Code's streams".into(), source };
        let (spec, program) = described(program)?;
        let mut caged = cage.spawn(&spec, &program)?;
        // Unbounded, and yet one prompt at a time: the next run begins only when the last one is over.
        let (prompts, taken) = mpsc::unbounded_channel();
        if let Some(stdin) = caged.stdin.take() {
            tokio::spawn(prompt(pipe::Sender::from_owned_fd(stdin.into()).map_err(streams)?, taken));
        }
        let stream = |end: Option<io::PipeReader>| {
            end.map(|end| pipe::Receiver::from_owned_fd(end.into())).transpose()
        };
        let stdout = stream(caged.stdout.take()).map_err(streams)?;
        let stderr = stream(caged.stderr.take()).map_err(streams)?;
        let caged = Arc::new(caged);
        let (end, gone) = watch::channel(false);
        tokio::spawn(attend(Arc::clone(&caged), (stdout, stderr), events, end));
        Ok(Self { caged, prompts, gone })
    }

    /// Gives it a prompt. Where it is gone, its end says so.
    pub(crate) fn prompt(&self, text: String) {
        let _ = self.prompts.send(text);
    }

    /// Ends it: first in good order, so that its transcript is written, then for good.
    pub(crate) async fn end(mut self) {
        for request in [Request::Terminate, Request::Resume] {
            if let Err(error) = self.caged.ask(request) {
                tracing::warn!(%error, "telling Claude Code to end failed");
            }
        }
        if timeout(GRACE, self.gone.wait_for(|gone| *gone)).await.is_err() {
            tracing::warn!("Claude Code did not end when it was told to; it is killed");
        }
        if let Err(error) = self.caged.kill_tree() {
            tracing::warn!(%error, "ending Claude Code's cage failed");
        }
        // The task that waits for the cage tells when it is gone.
        let _ = timeout(GRACE, self.gone.wait_for(|gone| *gone)).await;
    }
}

/// The cage for a program, and the program as the cage takes it. An installer's link is followed: the cage knows files
/// by where they really are.
fn described(program: Program) -> Result<(SandboxSpec, launch::Program), WallError> {
    let real = |path: PathBuf| {
        let found = path.canonicalize();
        found.map_err(|source| WallError::Exec { program: path, source })
    };
    let path = real(program.path)?;
    let libraries =
        launch::libraries_of(&path).map_err(|source| WallError::Exec { program: path.clone(), source })?;
    let spec = SandboxSpec::claude(AbsolutePath::new(real(program.home)?)?, Vec::new(), libraries);
    let mut arguments = vec![path.as_os_str().to_owned()];
    arguments.extend(program.arguments);
    let environment =
        program.environment.into_iter().map(|(name, value)| (OsString::from(name), value)).collect();
    let directory = AbsolutePath::new(real(program.directory)?)?;
    Ok((spec, launch::Program { path: AbsolutePath::new(path)?, arguments, directory, environment }))
}

async fn prompt(mut stdin: pipe::Sender, mut prompts: mpsc::UnboundedReceiver<String>) {
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

/// Reads what it says, waits for its end, and tells of both.
async fn attend(
    caged: Arc<Caged>,
    (stdout, stderr): (Option<pipe::Receiver>, Option<pipe::Receiver>),
    events: mpsc::Sender<Event>,
    end: watch::Sender<bool>,
) {
    let said = stdout.map(|stdout| {
        let events = events.clone();
        tokio::spawn(events::read(stdout, move |said| {
            let events = events.clone();
            // The loop is gone only when the process ends.
            async move { drop(events.send(Event::Said(said)).await) }
        }))
    });
    let tail = Arc::new(Mutex::new(Vec::new()));
    let complained = stderr.map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&tail))));
    let ending = tokio::task::spawn_blocking(move || caged.wait()).await;
    finish(said).await;
    finish(complained).await;
    let tail = std::mem::take(&mut *tail.lock().unwrap_or_else(PoisonError::into_inner));
    let how = how(ending.unwrap_or_else(|error| Err(io::Error::other(error))), &tail);
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

fn how(ending: io::Result<Ending>, stderr: &[u8]) -> String {
    let end = match ending {
        Ok(Ending::Exited(code)) => format!("exit code {code}"),
        Ok(Ending::Signaled(signal)) => format!("signal {signal}"),
        Ok(Ending::Killed) => "killed with its cage".to_owned(),
        Ok(Ending::Lost) => "its cage was torn down from outside".to_owned(),
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
