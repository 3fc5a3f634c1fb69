//! Settings that make git run nothing of a repository: no hooks, fsmonitor, filters, text converters, external diffs.
//!
//! They go by `GIT_CONFIG_COUNT`, which overrules every file of configuration. Which drivers a repository configures is
//! asked of git itself, in the cage; listing configuration runs nothing.

use std::{
    ffi::OsString,
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use sandbox_profiles::{
    AbsolutePath, SandboxSpec,
    launch::{CommandCages, Program, spawn_command_without_input},
};

use super::{environment::Environment, program};

/// Bytes of configuration names that are read; a repository with more gets the fixed settings, and the cage.
const MOST_BYTES: u64 = 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

/// Shows a plain difference in place of a configured program.
const PLAIN_DIFF: &str = "f() { diff -u \"$2\" \"$5\"; test $? -le 1; }; f";

/// What holds for every repository.
const FIXED: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("log.showSignature", "false"),
    ("diff.ignoreSubmodules", "dirty"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
];

/// A repository's configuration file, to know when to ask again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    file: PathBuf,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// The settings for the repository that was asked about last.
#[derive(Debug, Default)]
pub(super) struct Neutral {
    known: Mutex<Option<(Stamp, Vec<String>)>>,
}

/// What it takes to ask git.
pub(super) struct Question<'a> {
    pub(super) cages: &'a CommandCages,
    pub(super) spec: &'a SandboxSpec,
    pub(super) cwd: &'a AbsolutePath,
    pub(super) environment: &'a Environment,
}

impl Neutral {
    /// The variables for a command that starts in the question's directory.
    pub(super) fn settings(&self, question: &Question<'_>) -> Vec<(OsString, OsString)> {
        let mut settings: Vec<(String, String)> =
            FIXED.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        if let Some(stamp) = repository(question.cwd) {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = known.as_ref().is_none_or(|(of, _)| *of != stamp);
            if fresh {
                *known = Some((stamp, configured(question).unwrap_or_default()));
            }
            if let Some((_, keys)) = &*known {
                settings.extend(keys.iter().filter_map(|key| neutral(key)));
            }
        }
        let mut variables = vec![("GIT_CONFIG_COUNT".into(), settings.len().to_string().into())];
        for (index, (key, value)) in settings.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
            variables.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
        }
        variables
    }
}

/// The value that takes the program out of a configured key.
fn neutral(key: &str) -> Option<(String, String)> {
    let (section, rest) = key.split_once('.')?;
    let (_, last) = rest.rsplit_once('.').unwrap_or(("", rest));
    let value = match (section, last) {
        ("filter", "clean" | "smudge" | "process") => "",
        ("filter", "required") => "false",
        ("diff", "textconv") => "cat",
        ("diff", "command" | "external") => PLAIN_DIFF,
        ("merge", "driver") => "false",
        ("submodule", "ignore") => "dirty",
        ("gpg", "program") => "false",
        ("trailer", "command" | "cmd") => "true",
        _ => return None,
    };
    Some((key.to_owned(), value.to_owned()))
}

/// The configuration file of the repository that a directory lies in.
fn repository(cwd: &Path) -> Option<Stamp> {
    let marker = cwd.ancestors().map(|folder| folder.join(".git")).find(|marker| marker.exists())?;
    let config = marker.join("config");
    let file = if config.is_file() { config } else { marker };
    let metadata = fs::metadata(&file).ok()?;
    let changed = (metadata.mtime(), metadata.mtime_nsec());
    Some(Stamp { file, inode: metadata.ino(), size: metadata.size(), changed })
}

/// The keys that are configured there, as git itself says; nothing where it doesn't say.
fn configured(question: &Question<'_>) -> Option<Vec<String>> {
    let git = program::find("git", question.cwd, question.environment.search_path()).ok()?;
    let arguments = ["git", "config", "--list", "--name-only", "-z"].map(OsString::from).to_vec();
    let program = Program {
        path: git,
        arguments,
        directory: question.cwd.clone(),
        environment: question.environment.of_command(),
    };
    let mut caged = spawn_command_without_input(question.cages, question.spec, &program).ok()?;
    // Not read: a repository can't hold the command up with it, git's errors are short.
    drop(caged.stderr.take());
    let mut names = Vec::new();
    let output = caged.stdout.take()?;
    let reader = std::thread::spawn(move || {
        // What was read until an error is all there is to know.
        let _ = output.take(MOST_BYTES).read_to_end(&mut names);
        names
    });
    let ended = caged.wait_until(Instant::now() + PATIENCE).ok()?;
    if ended.is_none() {
        caged.kill_tree().ok()?;
    }
    let names = reader.join().ok()?;
    let mut keys: Vec<String> =
        names.split(|byte| *byte == 0).filter_map(|key| String::from_utf8(key.to_vec()).ok()).collect();
    keys.sort();
    keys.dedup();
    Some(keys)
}
