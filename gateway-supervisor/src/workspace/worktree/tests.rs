use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::Command,
};

mod hostile;
mod interrupted;
mod kinds;
mod removal;

use super::*;
use crate::config::GitPlace;

const BRANCH: &str = "gateway/test";

/// Paths on which each git of this machine is found.
fn gits() -> Vec<String> {
    let path = std::env::var("PATH").unwrap();
    let mut versions = std::collections::BTreeSet::new();
    let found = std::env::split_paths(&path).filter(|folder| {
        let version = Command::new(folder.join("git")).arg("version").output();
        version.is_ok_and(|version| versions.insert(version.stdout))
    });
    let paths: Vec<_> = found.map(|folder| format!("{}:{path}", folder.display())).collect();
    assert!(!paths.is_empty(), "no git");
    paths
}

struct Repository {
    _home: tempfile::TempDir,
    place: tempfile::TempDir,
    git_place: GitPlace,
}

impl Repository {
    fn new() -> Self {
        Self::with(&std::env::var("PATH").unwrap())
    }

    /// With the git that is found on this path.
    fn with(path: &str) -> Self {
        let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let user = vec![("HOME".into(), home.path().as_os_str().to_owned())];
        let git_place = GitPlace { path: path.to_owned(), user };
        let repository = Self { _home: home, place, git_place };
        fs::create_dir(repository.source()).unwrap();
        repository.git(&["init", "-q", "-b", "main"]);
        fs::write(repository.source().join("a.txt"), "one\n").unwrap();
        fs::write(repository.source().join("crlf.txt"), "one\r\ntwo\r\n").unwrap();
        fs::write(repository.source().join(".gitattributes"), "crlf.txt text eol=crlf\n").unwrap();
        repository.git(&["add", "-A"]);
        repository.git(&["commit", "-qm", "first"]);
        repository
    }

    fn source(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap().join("source")
    }

    fn folder(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap().join("worktree")
    }

    fn git(&self, arguments: &[&str]) {
        self.git_in(&self.source(), arguments);
    }

    fn git_in(&self, directory: &Path, arguments: &[&str]) {
        let output = self.command(directory, arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
    }

    fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always"])
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .env("PATH", &self.git_place.path)
            .envs(self.git_place.user.iter().map(|(k, v)| (k, v)));
        command
    }

    async fn neutral(&self) -> Git {
        Git::neutral(&self.git_place, &self.source()).await.unwrap()
    }

    /// Removes the worktree where nothing would be lost; otherwise what a look says.
    async fn remove(&self) -> Option<remove::Look> {
        let (git, folder) = (self.neutral().await, self.folder());
        let look = remove::look(&git, &folder, BRANCH).await.unwrap();
        let remove::Look::Free { commit } = &look else { return Some(look) };
        remove::remove(&git, Site { folder: &folder, branch: BRANCH, commit }).await.unwrap();
        None
    }

    /// What a look at a directory says.
    async fn suits(&self, directory: &Path) -> Result<String, Unsuitable> {
        let git = Git::neutral(&self.git_place, directory).await?;
        examine(&git).await.map(|base| base.commit)
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = self.command(&self.source(), arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Looks, then makes what was planned.
    async fn make(&self) -> Result<PathBuf, WorktreeError> {
        let git = self.neutral().await;
        let base = examine(&git).await?;
        self.make_at(&git, &base.commit).await
    }

    async fn make_at(&self, git: &Git, commit: &str) -> Result<PathBuf, WorktreeError> {
        let folder = self.folder();
        make(git, Site { folder: &folder, branch: BRANCH, commit }).await
    }

    async fn abandon_at(&self, commit: &str) -> Result<(), WorktreeError> {
        let folder = self.folder();
        abandon(&self.neutral().await, Site { folder: &folder, branch: BRANCH, commit }).await
    }

    /// A program that leaves a canary when anything starts it.
    fn canary(&self, name: &str) -> String {
        let (program, witness) =
            (self.place.path().join(name), self.place.path().join("canaries").join(name));
        fs::create_dir_all(witness.parent().unwrap()).unwrap();
        fs::write(&program, format!("#!/bin/sh\n: > '{}'\ncat\n", witness.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program.display().to_string()
    }

    fn canaries(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.place.path().join("canaries")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// Everything of the source but what the session's own names carry.
fn of_the_owner(source: &Path) -> BTreeMap<PathBuf, (u32, i64, protocol::digest::Digest)> {
    let mut found = everything(source);
    found.retain(|path, _| {
        let path = path.to_str().unwrap();
        ![".git/worktrees/", ".git/refs/heads/gateway/", ".git/logs/refs/heads/gateway/"]
            .iter()
            .any(|own| path.starts_with(own))
    });
    found
}

/// The files that differ.
fn differences(
    before: &BTreeMap<PathBuf, (u32, i64, protocol::digest::Digest)>,
    after: &BTreeMap<PathBuf, (u32, i64, protocol::digest::Digest)>,
) -> Vec<PathBuf> {
    let either = before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path));
    either.cloned().collect()
}

/// Every file below `root`: mode, time of change of its content, and content.
fn everything(root: &Path) -> BTreeMap<PathBuf, (u32, i64, protocol::digest::Digest)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let known = path.symlink_metadata().unwrap();
            if known.is_dir() {
                left.push(path);
            } else {
                let content = if known.is_symlink() { Vec::new() } else { fs::read(&path).unwrap() };
                found.insert(
                    path.strip_prefix(root).unwrap().to_owned(),
                    (known.mode(), known.mtime_nsec(), protocol::digest::Digest::of(&content)),
                );
            }
        }
    }
    found
}

#[tokio::test(flavor = "current_thread")]
async fn the_source_stays_as_it_is_but_for_the_new_branch() {
    let repository = Repository::new();
    let before = everything(&repository.source());
    let root = repository.make().await.unwrap();
    assert_eq!(root, repository.folder());
    assert_eq!(fs::read(root.join("crlf.txt")).unwrap(), b"one\r\ntwo\r\n", "end-of-line conversion stays");
    assert_eq!(differences(&before, &of_the_owner(&repository.source())), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "current_thread")]
async fn its_files_have_the_modes_that_the_users_own_git_would_give_them() {
    let repository = Repository::new();
    fs::write(repository.source().join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(repository.source().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    repository.git(&["add", "-A"]);
    repository.git(&["commit", "-qm", "a program"]);
    for (umask, file, program) in [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)] {
        let git = repository.neutral().await.under_umask(umask);
        let root = repository.make_at(&git, &repository.said(&["rev-parse", "HEAD"])).await.unwrap();
        let mode = |name: &str| root.join(name).metadata().unwrap().mode() & 0o777;
        assert_eq!((mode("a.txt"), mode("run.sh")), (file, program), "umask {umask:o}");
        assert_eq!(repository.remove().await, None);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn what_does_not_suit_is_refused_with_the_reason() {
    let repository = Repository::new();
    let source = repository.source();
    fs::write(source.join("new.txt"), "x").unwrap();
    let refusal = repository.suits(&source).await.unwrap_err();
    assert!(
        matches!(&refusal, Unsuitable::Dirty { count: 1, first } if first.contains("new.txt")),
        "{refusal}"
    );
    fs::remove_file(source.join("new.txt")).unwrap();
    fs::create_dir(source.join("below")).unwrap();
    assert!(matches!(repository.suits(&source.join("below")).await, Err(Unsuitable::NotTop)));
    assert!(matches!(
        repository.suits(&source.join(".git")).await,
        Err(Unsuitable::InsideGit | Unsuitable::Bare)
    ));
    fs::write(source.join(".git/MERGE_HEAD"), "x").unwrap();
    assert!(matches!(repository.suits(&source).await, Err(Unsuitable::UnderWay("merge"))));
    fs::remove_file(source.join(".git/MERGE_HEAD")).unwrap();
    repository.git(&["config", "core.sparseCheckout", "yes"]);
    assert!(matches!(repository.suits(&source).await, Err(Unsuitable::Sparse)));
    let outside = tempfile::tempdir().unwrap();
    assert!(matches!(repository.suits(outside.path()).await, Err(Unsuitable::NoRepository)));
    repository.git_in(outside.path(), &["init", "-q"]);
    assert!(matches!(repository.suits(outside.path()).await, Err(Unsuitable::NoCommit)));
    let bare = tempfile::tempdir().unwrap();
    repository.git_in(bare.path(), &["init", "-q", "--bare"]);
    assert!(matches!(repository.suits(bare.path()).await, Err(Unsuitable::Bare)));
}

#[tokio::test(flavor = "current_thread")]
async fn a_partial_clone_without_its_contents_is_refused() {
    let repository = Repository::new();
    repository.git(&["config", "uploadpack.allowFilter", "true"]);
    let clone = repository.place.path().join("clone");
    let url = format!("file://{}", repository.source().display());
    repository.git_in(
        repository.place.path(),
        &["clone", "-q", "--no-checkout", "--filter=blob:none", &url, clone.to_str().unwrap()],
    );
    // An index that matches HEAD without any file at hand: every file is marked as not to be looked at.
    repository.git_in(&clone, &["read-tree", "HEAD"]);
    for file in ["a.txt", "crlf.txt", ".gitattributes"] {
        repository.git_in(&clone, &["update-index", "--skip-worktree", file]);
    }
    let refusal = repository.suits(&clone).await.unwrap_err();
    assert!(matches!(refusal, Unsuitable::Partial(_)), "{refusal}");
}
