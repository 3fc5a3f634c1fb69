//! Git, run on a repository that may be hostile: nothing that the repository names is ever started.
//!
//! Git starts programs that a repository's configuration names: hooks, file-system monitors, filters, converters, pagers,
//! editors, credential helpers, transports. Each is overridden through the environment, which beats every configuration file;
//! those with names of their own by name, after their names were listed. End-of-line conversion stays, because git does it
//! itself.
//!
//! Invariant: git is started here and nowhere else, with an environment of its own and a time-out.
//! Invariant: no override depends on what a repository calls things: names travel as values of variables, never spliced.
//! Invariant: what is overridden was listed by a git in the very place where it then runs: configuration may differ between
//! the directories of one repository (`includeIf`, `config.worktree`).
#![expect(clippy::disallowed_methods, reason = "the launcher of git")]

mod finished;
mod settings;

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::config::GitPlace;

/// Longest run of one git command: checking out a large repository on a slow disk.
const TIME: Duration = Duration::from_secs(600);

/// What a git is started with beside the user's own: nothing asks, pages, edits, fetches, or writes where it only looks.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Newer gits know this; for all of them no transport is allowed, whatever `protocol.NAME.allow` says.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_ASKPASS", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_SSH_COMMAND", "false"),
];

/// Why git did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    /// There is no git.
    #[error("git was not found on the supervisor's PATH; install git and start the supervisor again")]
    Missing,
    /// It could not be started or read.
    #[error("git could not be run: {0}")]
    Io(#[from] io::Error),
    /// It took too long.
    #[error("git did not finish within {} s", TIME.as_secs())]
    Slow,
    /// It was ended.
    #[error("git was ended, because what it did is not wanted any more")]
    Left,
    /// It said no.
    #[error("git {command} failed: {said}")]
    Refused {
        /// The subcommand.
        command: String,
        /// What it wrote to stderr, shortened.
        said: String,
    },
}

/// A repository looked at through other places than its own directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Through<'a> {
    /// The repository's common folder.
    pub(crate) repository: &'a Path,
    /// The files.
    pub(crate) files: &'a Path,
    /// The index.
    pub(crate) index: &'a Path,
}

/// A git that starts nothing of the repository at `directory`.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    program: PathBuf,
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
    settings: Vec<(OsString, OsString)>,
    umask: Option<u32>,
    leave: CancellationToken,
}

impl Git {
    /// The git of `place` for the repository at `directory`, neutralised.
    ///
    /// # Errors
    /// Where there is no git, or it can't read the repository's configuration.
    pub(crate) async fn neutral(place: &GitPlace, directory: &Path) -> Result<Self, GitError> {
        let program = std::env::split_paths(&place.path)
            .map(|folder| folder.join("git"))
            .find(|candidate| candidate.is_absolute() && candidate.is_file())
            .ok_or(GitError::Missing)?;
        let mut environment: Vec<(OsString, OsString)> = place.user.clone();
        environment.push(("PATH".into(), place.path.as_str().into()));
        environment.extend(ENVIRONMENT.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let git = Self {
            program,
            directory: directory.to_owned(),
            environment,
            settings: settings::fixed(),
            umask: None,
            leave: CancellationToken::new(),
        };
        git.listed().await
    }

    /// Where it runs.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The same for another directory of the same repository.
    ///
    /// # Errors
    /// Where the configuration there can't be read.
    pub(crate) async fn at(&self, directory: &Path) -> Result<Self, GitError> {
        Self { directory: directory.to_owned(), ..self.clone() }.listed().await
    }

    /// The same with the repository, the files and the index named by themselves, whatever stands in the files' `.git`.
    ///
    /// # Errors
    /// Where the configuration there can't be read.
    pub(crate) async fn through(&self, places: Through<'_>) -> Result<Self, GitError> {
        let mut git = self.clone();
        git.directory = places.files.to_owned();
        for (name, place) in [
            ("GIT_DIR", places.repository),
            ("GIT_WORK_TREE", places.files),
            ("GIT_INDEX_FILE", places.index),
        ] {
            git.environment.push((name.into(), place.into()));
        }
        git.listed().await
    }

    /// The same, making files under the user's own umask rather than the supervisor's.
    pub(crate) fn under_umask(self, umask: u32) -> Self {
        Self { umask: Some(umask & 0o777), ..self }
    }

    /// The same, carrying the folder by which a session's processes are found.
    pub(crate) fn marked(mut self, scratch: &Path) -> Self {
        self.environment.push(("TMPDIR".into(), scratch.into()));
        self
    }

    /// The same, ended when `leave` is cancelled: then whatever it runs is killed, and gone before that is said.
    pub(crate) fn until(self, leave: CancellationToken) -> Self {
        Self { leave, ..self }
    }

    /// Overrides every program that is configured where it runs. Listing the configuration starts nothing.
    async fn listed(mut self) -> Result<Self, GitError> {
        self.settings = settings::fixed();
        let names = self.run(&["config", "--list", "--name-only", "-z"]).await?;
        self.settings.extend(settings::of_drivers(&names));
        Ok(self)
    }

    /// A process's umask is its own, so a shell sets it and then becomes git. Nothing is spliced into its text.
    fn command(&self) -> tokio::process::Command {
        let Some(umask) = self.umask else { return tokio::process::Command::new(&self.program) };
        let mut command = tokio::process::Command::new("/bin/sh");
        command.args(["-c", r#"umask "$0" && exec "$@""#, &format!("{umask:04o}")]).arg(&self.program);
        command
    }

    fn overrides(&self) -> Vec<(OsString, OsString)> {
        let mut variables = vec![("GIT_CONFIG_COUNT".into(), self.settings.len().to_string().into())];
        for (number, (key, value)) in self.settings.iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{number}").into(), key.clone()));
            variables.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.clone()));
        }
        variables
    }

    /// Runs git and gives its stdout.
    ///
    /// # Errors
    /// Where it can't be run, takes too long, or exits with an error.
    pub(crate) async fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<u8>, GitError> {
        self.run_with(arguments, &[]).await
    }

    /// Runs git with `input` on its stdin and gives its stdout.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub(crate) async fn run_with<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        let mut child = self
            .command()
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .envs(self.overrides())
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let output = tokio::select! {
            output = tokio::time::timeout(TIME, finished::finished(&mut child, input)) => output.map_err(|_| GitError::Slow),
            () = self.leave.cancelled() => Err(GitError::Left),
        };
        let output = match output {
            Ok(output) => output?,
            Err(ended) => {
                child.kill().await?;
                return Err(ended);
            }
        };
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let command =
            arguments.iter().map(AsRef::as_ref).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
        Err(GitError::Refused {
            command: command.unwrap_or_default().to_string_lossy().into_owned(),
            said: said.trim().chars().take(600).collect(),
        })
    }

    /// Runs git and gives its stdout without the last line's end.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub(crate) async fn line<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, GitError> {
        let output = self.run(arguments).await?;
        let line = output.strip_suffix(b"\n").unwrap_or(&output);
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    /// What `git status` lists under these options, one change each: two letters, a blank, the path.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub(crate) async fn status(&self, options: &[&str]) -> Result<Vec<Vec<u8>>, GitError> {
        let plain = ["status", "--porcelain=v1", "-z", "--no-renames"];
        let said = self.run(&[&plain, options].concat()).await?;
        let changes = said.split(|byte| *byte == 0).filter(|change| !change.is_empty());
        Ok(changes.map(<[u8]>::to_vec).collect())
    }

    /// Runs git and gives the path that it says.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub(crate) async fn path<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<PathBuf, GitError> {
        let mut output = self.run(arguments).await?;
        if output.last() == Some(&b'\n') {
            output.pop();
        }
        Ok(PathBuf::from(OsString::from_vec(output)))
    }

    /// Runs git and gives its stdout as one line, or none where it says no.
    ///
    /// # Errors
    /// Where it can't be run or takes too long.
    pub(crate) async fn asked<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Option<String>, GitError> {
        match self.line(arguments).await {
            Ok(line) => Ok(Some(line)),
            Err(GitError::Refused { .. }) => Ok(None),
            Err(error @ (GitError::Missing | GitError::Io(_) | GitError::Slow | GitError::Left)) => {
                Err(error)
            }
        }
    }
}
