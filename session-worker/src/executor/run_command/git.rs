//! Settings that make git run nothing of a repository: no hooks, fsmonitor, filters, text converters, external diffs.
//!
//! They go by `GIT_CONFIG_COUNT`, which overrules every file of configuration. Which drivers a repository configures is
//! asked of git itself, in the cage; listing configuration runs nothing.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use sandbox_profiles::{
    AbsolutePath, SandboxSpec,
    launch::{CommandCages, Program, spawn_command_without_input},
};

use super::{environment::Environment, program};

/// Bytes of configuration names that are read; where there are more, no git starts.
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
    ("core.editor", "false"),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "false"),
    ("credential.helper", ""),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
];

/// A partial clone fetches what it lacks, by a transport that the repository names. Copies within the machine stay possible.
const TRANSPORTS: &[(&str, &str)] = &[("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "file")];

/// Options of git before its command that take the next word.
const WITH_A_WORD: &[&str] = &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"];

/// A file or folder of configuration, to know when to ask again; none where it is not there.
type Stamp = (PathBuf, Option<(u64, u64, i64, i64)>);

/// What git said of a repository.
#[derive(Debug)]
struct Known {
    /// The directory that it was asked in.
    asked_in: PathBuf,
    /// What would tell of a change.
    stamps: Vec<Stamp>,
    /// The keys that are configured.
    keys: Vec<Vec<u8>>,
}

/// The settings for the repository that was asked about last.
#[derive(Debug, Default)]
pub(super) struct Neutral {
    known: Mutex<Option<Known>>,
}

/// What it takes to ask git.
pub(super) struct Question<'a> {
    pub(super) cages: &'a CommandCages,
    pub(super) spec: &'a SandboxSpec,
    pub(super) cwd: &'a AbsolutePath,
    pub(super) argv: &'a [String],
    pub(super) environment: &'a Environment,
}

impl Neutral {
    /// The variables for a command that starts in the question's directory. Where git can't say what is configured, they
    /// keep every git from starting.
    pub(super) fn settings(&self, question: &Question<'_>) -> Vec<(OsString, OsString)> {
        let mut settings: Vec<(OsString, OsString)> =
            FIXED.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let places = places(question.argv);
        if let Some(top) =
            top(question.cwd).or_else(|| (!places.is_empty()).then(|| question.cwd.to_path_buf()))
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let holds = known.as_ref().is_some_and(|known| known.holds(question.cwd));
            if !holds || !places.is_empty() {
                *known = match configured(question, places) {
                    Asked::NoGit => return Vec::new(),
                    Asked::Unknown => return vec![("GIT_CONFIG_COUNT".into(), "unknown".into())],
                    Asked::Said(said) => Some(Known::of(question.cwd, &top, &said)),
                };
            }
            if let Some(known) = &*known {
                settings.extend(known.keys.iter().filter_map(|key| neutral(key)));
            }
            if !places.is_empty() {
                *known = None;
            }
        }
        let mut variables: Vec<(OsString, OsString)> =
            TRANSPORTS.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        variables.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (index, (key, value)) in settings.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{index}").into(), key));
            variables.push((format!("GIT_CONFIG_VALUE_{index}").into(), value));
        }
        variables
    }
}

impl Known {
    /// From pairs of where a key is configured and the key.
    fn of(asked_in: &Path, top: &Path, said: &[u8]) -> Self {
        let words: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
        let (mut files, mut keys) = (BTreeSet::new(), BTreeSet::new());
        let marker = top.join(".git");
        if let Ok(text) = fs::read(&marker) {
            let own = text.trim_ascii_end().strip_prefix(b"gitdir: ").unwrap_or_default();
            files.insert(top.join(OsStr::from_bytes(own)));
        }
        files.insert(marker);
        for pair in words.chunks_exact(2) {
            if let Some(file) = pair[0].strip_prefix(b"file:") {
                let file = top.join(OsStr::from_bytes(file));
                // One that is made later changes its folder.
                files.extend(file.parent().map(Path::to_owned));
                files.insert(file);
            }
            keys.insert(pair[1].to_vec());
        }
        let stamps = files.into_iter().map(|file| (stamp(&file), file)).map(|(now, file)| (file, now));
        Self { asked_in: asked_in.to_owned(), stamps: stamps.collect(), keys: keys.into_iter().collect() }
    }

    /// Whether it still holds there. What is included, and when, may depend on anything: then git is always asked.
    fn holds(&self, cwd: &Path) -> bool {
        let includes = |key: &[u8]| key.starts_with(b"include.") || key.starts_with(b"includeif.");
        self.asked_in == cwd
            && !self.keys.iter().any(|key| includes(key))
            && self.stamps.iter().all(|(file, then)| stamp(file) == *then)
    }
}

fn stamp(file: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = fs::metadata(file).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// The setting that takes the program out of a configured key. Keys are bytes: git takes any.
fn neutral(key: &[u8]) -> Option<(OsString, OsString)> {
    let first = key.iter().position(|byte| *byte == b'.')?;
    let last = key.iter().rposition(|byte| *byte == b'.')?;
    let value = match (&key[..first], &key[last + 1..]) {
        (b"filter", b"clean" | b"smudge" | b"process") => "",
        (b"filter", b"required") => "false",
        (b"diff", b"textconv") => "cat",
        (b"diff", b"command" | b"external") => PLAIN_DIFF,
        (b"merge", b"driver") => "false",
        (b"submodule", b"ignore") => "dirty",
        (b"gpg", b"program") => "false",
        (b"gpg", b"defaultkeycommand") => "",
        (b"credential", b"helper") => "",
        (b"hook", b"enabled") => "false",
        (b"hook", b"command") => "true",
        (b"remote", b"uploadpack") => "git-upload-pack",
        (b"remote", b"receivepack") => "git-receive-pack",
        (b"trailer", b"command" | b"cmd") => "true",
        _ => return None,
    };
    Some((OsString::from_vec(key.to_vec()), value.into()))
}

/// The words by which a git is told to work in another repository.
fn places(argv: &[String]) -> &[String] {
    let (Some(program), rest) = (argv.first(), argv.get(1..).unwrap_or_default()) else { return &[] };
    if Path::new(program).file_name() != Some(OsStr::new("git")) {
        return &[];
    }
    let mut words = 0;
    while let Some(word) = rest.get(words).filter(|word| word.starts_with('-')) {
        words += if WITH_A_WORD.contains(&word.as_str()) { 2 } else { 1 };
    }
    let global = &rest[..words.min(rest.len())];
    let elsewhere =
        |word: &String| word == "-C" || word.starts_with("--git-dir") || word.starts_with("--work-tree");
    if global.iter().any(elsewhere) { global } else { &[] }
}

/// The folder with the repository that a directory lies in, or that is one itself.
fn top(cwd: &Path) -> Option<PathBuf> {
    let has = |folder: &Path, name: &str| folder.join(name).exists();
    let is_top = |folder: &&Path| has(folder, ".git") || (has(folder, "HEAD") && has(folder, "objects"));
    cwd.ancestors().find(is_top).map(Path::to_owned)
}

/// What became of a question.
enum Asked {
    /// There is no git to be kept from anything.
    NoGit,
    /// It did not say all.
    Unknown,
    /// Where each key is configured, and the key.
    Said(Vec<u8>),
}

/// The keys that are configured there, as git itself says.
fn configured(question: &Question<'_>, places: &[String]) -> Asked {
    match program::find("git", question.cwd, question.environment.search_path()) {
        Ok(git) => listed(question, git, places).map_or(Asked::Unknown, Asked::Said),
        Err(_) => Asked::NoGit,
    }
}

fn listed(question: &Question<'_>, git: AbsolutePath, places: &[String]) -> Option<Vec<u8>> {
    let list = ["config", "--list", "--show-origin", "--name-only", "-z"];
    let words = ["git"].into_iter().chain(places.iter().map(String::as_str)).chain(list);
    let program = Program {
        path: git,
        arguments: words.map(OsString::from).collect(),
        directory: question.cwd.clone(),
        environment: question.environment.of_command(),
    };
    let mut caged = spawn_command_without_input(question.cages, question.spec, &program).ok()?;
    // Not read: a repository can't hold the command up with it, git's errors are short.
    drop(caged.stderr.take());
    let mut said = Vec::new();
    let output = caged.stdout.take()?;
    let reader = std::thread::spawn(move || {
        // What was read until an error is all there is to know.
        let _ = output.take(MOST_BYTES).read_to_end(&mut said);
        said
    });
    let ended = caged.wait_until(Instant::now() + PATIENCE).ok()?;
    if ended.is_none() {
        caged.kill_tree().ok()?;
    }
    let said = reader.join().ok()?;
    let whole = ended.is_some() && u64::try_from(said.len()).is_ok_and(|bytes| bytes < MOST_BYTES);
    whole.then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_taken_out_of_the_configuration_whatever_its_name() {
        for key in [
            &b"filter.a.b=C.smudge"[..],
            b"filter.\xff.process",
            b"filter..clean",
            b"diff.x.textconv",
            b"gpg.ssh.program",
            b"remote.o.uploadpack",
            b"hook.h.command",
        ] {
            let (named, _) = neutral(key).unwrap();
            assert_eq!(named.as_bytes(), key);
        }
        for key in [&b"core.bare"[..], b"remote.o.url", b"nothing", b"filter.x.other"] {
            assert_eq!(neutral(key), None);
        }
    }

    #[test]
    fn a_git_that_is_told_where_to_work_is_asked_there() {
        for (argv, words) in [
            (&["git", "status"][..], 0),
            (&["git", "-c", "a=b", "status"], 0),
            (&["git", "-C", "sub", "status", "-C"], 2),
            (&["/usr/bin/git", "--no-pager", "--git-dir=x", "log"], 2),
            (&["git", "-c", "a=b", "-C", "sub"], 4),
            (&["git", "-C"], 1),
            (&["ls", "-C"], 0),
            (&[], 0),
        ] {
            let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(places(&argv).len(), words, "{argv:?}");
        }
    }
}
