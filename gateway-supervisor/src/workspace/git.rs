//! Git, run on a repository that may be hostile: nothing that the repository names is ever started.
//!
//! Git starts programs that a repository's configuration names: hooks, file-system monitors, filters, converters, pagers,
//! editors, credential helpers. Each is overridden through the environment, which beats every configuration file; the filters
//! by name, after their names were listed. End-of-line conversion stays, because git does it itself.
//!
//! Invariant: git is started here and nowhere else, with an environment of its own and a time-out.
//! Invariant: no override depends on what a repository calls things: names travel as values of variables, never spliced.
#![expect(clippy::disallowed_methods, reason = "the launcher of git")]

mod drivers;

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use drivers::drivers_in;

/// Longest run of one git command: checking out a large repository on a slow disk.
const TIME: Duration = Duration::from_secs(600);

/// Settings that keep git from starting anything, whatever the repository says.
const NEUTRAL: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gpg.program", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    // Nothing is ever fetched, so that a partial clone can't start a transport.
    ("protocol.allow", "never"),
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
    /// It said no.
    #[error("git {command} failed: {said}")]
    Refused {
        /// The subcommand.
        command: String,
        /// What it wrote to stderr, shortened.
        said: String,
    },
}

/// A git that starts nothing of the repository at `directory`.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    program: PathBuf,
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
    umask: Option<u32>,
}

impl Git {
    /// The git on `path` for the repository at `directory`, neutralised. `user` is the environment in which the user's own git
    /// configuration is found: HOME and, where set, `XDG_CONFIG_HOME`.
    ///
    /// # Errors
    /// Where there is no git, or it can't read the repository's configuration.
    pub(crate) async fn neutral(
        path: &str,
        user: &[(OsString, OsString)],
        directory: &Path,
    ) -> Result<Self, GitError> {
        let program = std::env::split_paths(path)
            .map(|folder| folder.join("git"))
            .find(|candidate| candidate.is_absolute() && candidate.is_file())
            .ok_or(GitError::Missing)?;
        let mut environment: Vec<(OsString, OsString)> = user.to_vec();
        for (name, value) in [
            ("PATH", path),
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_PAGER", "cat"),
            ("GIT_ASKPASS", "false"),
            ("GIT_EDITOR", "false"),
            ("GIT_SSH_COMMAND", "false"),
        ] {
            environment.push((name.into(), value.into()));
        }
        let git = Self { program, directory: directory.to_owned(), environment, umask: None };
        // Listing the configuration starts nothing.
        let fixed = git.overriding(NEUTRAL.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        let listed = fixed.run(&["config", "--list", "--name-only", "-z"]).await?;
        let mut settings: Vec<(String, String)> =
            NEUTRAL.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        settings.extend(drivers_in(&listed));
        Ok(git.overriding(settings))
    }

    /// The same for another directory of the same repository.
    pub(crate) fn at(&self, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..self.clone() }
    }

    /// The same, making files under the user's own umask rather than the supervisor's.
    pub(crate) fn under_umask(self, umask: u32) -> Self {
        Self { umask: Some(umask & 0o777), ..self }
    }

    /// A process's umask is its own, so a shell sets it and then becomes git. Nothing is spliced into its text.
    fn command(&self) -> tokio::process::Command {
        let Some(umask) = self.umask else { return tokio::process::Command::new(&self.program) };
        let mut command = tokio::process::Command::new("/bin/sh");
        command.args(["-c", r#"umask "$0" && exec "$@""#, &format!("{umask:04o}")]).arg(&self.program);
        command
    }

    fn overriding(&self, settings: Vec<(String, String)>) -> Self {
        let mut git = self.clone();
        git.environment.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (number, (key, value)) in settings.into_iter().enumerate() {
            git.environment.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
            git.environment.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
        }
        git
    }

    /// Runs git and gives its stdout.
    ///
    /// # Errors
    /// Where it can't be run, takes too long, or exits with an error.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        self.run_with(arguments, &[]).await
    }

    /// Runs git with `input` on its stdin and gives its stdout.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub(crate) async fn run_with(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let mut child = self
            .command()
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A git that does not read everything closes the pipe; its exit tells more.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stdin, input).await;
            }
        };
        let both = async { tokio::join!(feed, child.wait_with_output()).1 };
        let output = tokio::time::timeout(TIME, both).await.map_err(|_| GitError::Slow)??;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(GitError::Refused {
            command: arguments.first().copied().unwrap_or_default().to_owned(),
            said: said.trim().chars().take(600).collect(),
        })
    }

    /// Runs git and gives its stdout as one trimmed line.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub(crate) async fn line(&self, arguments: &[&str]) -> Result<String, GitError> {
        let output = self.run(arguments).await?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }
}
