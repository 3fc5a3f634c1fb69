use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::Command,
};

use super::{
    remove::{Holds, remove},
    *,
};

struct Repository {
    _home: tempfile::TempDir,
    place: tempfile::TempDir,
    user: Vec<(OsString, OsString)>,
    path: String,
}

impl Repository {
    fn new() -> Self {
        let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let user = vec![("HOME".into(), home.path().as_os_str().to_owned())];
        let path = std::env::var("PATH").unwrap();
        let repository = Self { _home: home, place, user, path };
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
        let status = Command::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always"])
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .env("PATH", &self.path)
            .envs(self.user.iter().map(|(k, v)| (k, v)))
            .status()
            .unwrap();
        assert!(status.success(), "git {arguments:?}");
    }

    async fn neutral(&self) -> Git {
        Git::neutral(&self.path, &self.user, &self.source()).await.unwrap()
    }

    async fn make(&self) -> Result<Made, WorktreeError> {
        make(&self.neutral().await, &self.source(), (&self.folder(), "gateway/test")).await
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
    let made = repository.make().await.unwrap();
    assert_eq!(made.root, repository.folder());
    assert_eq!(
        fs::read(made.root.join("crlf.txt")).unwrap(),
        b"one\r\ntwo\r\n",
        "end-of-line conversion stays"
    );
    assert!(
        matches!(&made.kind, WorkspaceKind::Worktree { branch, base_commit } if branch == "gateway/test" && base_commit.len() == 40)
    );
    let mut after = everything(&repository.source());
    after.retain(|path, _| {
        let path = path.to_str().unwrap();
        !(path.starts_with(".git/worktrees/")
            || path.starts_with(".git/refs/heads/gateway/")
            || path.starts_with(".git/logs/refs/heads/gateway/"))
    });
    assert_eq!(after, before);
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
        let made = make(&git, &repository.source(), (&repository.folder(), "gateway/test")).await.unwrap();
        let mode = |name: &str| made.root.join(name).metadata().unwrap().mode() & 0o777;
        assert_eq!((mode("a.txt"), mode("run.sh")), (file, program), "umask {umask:o}");
        assert!(remove(&git, &made.root, "gateway/test").await.unwrap().nothing());
    }
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_that_a_hostile_repository_names_is_started() {
    let repository = Repository::new();
    let hooks = repository.source().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in
        ["post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "fsmonitor-watchman"]
    {
        fs::rename(repository.canary(&format!("hook-{hook}")), hooks.join(hook)).unwrap();
    }
    let hostile = repository.canary("hostile");
    for name in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "diff.external",
        "diff.d.textconv",
        "diff.d.command",
        "filter.f.clean",
        "filter.f.smudge",
        "filter.F.G.process",
        "filter.p.process",
        "credential.helper",
        "gpg.program",
        "alias.status",
        "alias.worktree",
    ] {
        let value = if name.starts_with("alias") { format!("!{hostile}") } else { hostile.clone() };
        repository.git(&["config", name, &value]);
    }
    repository.git(&["config", "filter.f.required", "true"]);
    let (source, attributes) = (repository.source(), "a.txt filter=f diff=d\nb.txt filter=p\n");
    fs::write(source.join(".gitattributes"), attributes).unwrap();
    // The commit is made with every filter off, as an attacker's server would have made it.
    repository.git(&[
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "filter.f.clean=",
        "-c",
        "filter.f.required=false",
        "-c",
        "filter.f.smudge=",
        "commit",
        "-qam",
        "attributes",
    ]);
    for left in repository.canaries() {
        fs::remove_file(repository.place.path().join("canaries").join(left)).unwrap();
    }
    let made = repository.make().await.unwrap();
    assert!(made.notes.iter().any(|note| note.contains("filter")), "{:?}", made.notes);
    let git = repository.neutral().await;
    assert!(remove(&git, &made.root, "gateway/test").await.unwrap().nothing());
    assert_eq!(repository.canaries(), Vec::<String>::new());
}

#[tokio::test(flavor = "current_thread")]
async fn what_does_not_suit_is_refused_with_the_reason() {
    let repository = Repository::new();
    let (source, git) = (repository.source(), repository.neutral().await);
    fs::write(source.join("new.txt"), "x").unwrap();
    let refusal = examine(&git, &source).await.unwrap_err();
    assert!(
        matches!(&refusal, Unsuitable::Dirty { count: 1, first } if first.contains("new.txt")),
        "{refusal}"
    );
    fs::remove_file(source.join("new.txt")).unwrap();
    fs::create_dir(source.join("below")).unwrap();
    assert!(matches!(examine(&git, &source.join("below")).await, Err(Unsuitable::NotTop)));
    assert!(matches!(
        examine(&git, &source.join(".git")).await,
        Err(Unsuitable::InsideGit | Unsuitable::Bare)
    ));
    fs::write(source.join(".git/MERGE_HEAD"), "x").unwrap();
    assert!(matches!(examine(&git, &source).await, Err(Unsuitable::UnderWay("merge"))));
    fs::remove_file(source.join(".git/MERGE_HEAD")).unwrap();
    repository.git(&["config", "core.sparseCheckout", "yes"]);
    assert!(matches!(examine(&git, &source).await, Err(Unsuitable::Sparse)));
    let outside = tempfile::tempdir().unwrap();
    assert!(matches!(examine(&git, outside.path()).await, Err(Unsuitable::NoRepository)));
    repository.git_in(outside.path(), &["init", "-q"]);
    assert!(matches!(examine(&git, outside.path()).await, Err(Unsuitable::NoCommit)));
    let bare = tempfile::tempdir().unwrap();
    repository.git_in(bare.path(), &["init", "-q", "--bare"]);
    assert!(matches!(examine(&git, bare.path()).await, Err(Unsuitable::Bare)));
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
    let git = Git::neutral(&repository.path, &repository.user, &clone).await.unwrap();
    let refusal = examine(&git, &clone).await.unwrap_err();
    assert!(matches!(refusal, Unsuitable::Partial(_)), "{refusal}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_worktree_is_removed_only_when_nothing_would_be_lost() {
    let repository = Repository::new();
    let made = repository.make().await.unwrap();
    let git = repository.neutral().await;
    fs::write(made.root.join("work.txt"), "x").unwrap();
    assert_eq!(remove(&git, &made.root, "gateway/test").await.unwrap(), Holds { files: 1, commits: 0 });
    repository.git_in(&made.root, &["add", "-A"]);
    repository.git_in(&made.root, &["commit", "-qm", "work"]);
    assert_eq!(remove(&git, &made.root, "gateway/test").await.unwrap(), Holds { files: 0, commits: 1 });
    assert!(made.root.join("work.txt").exists());
    repository.git(&["branch", "taken", "gateway/test"]);
    assert!(remove(&git, &made.root, "gateway/test").await.unwrap().nothing());
    assert!(!made.root.exists());
    assert!(git.run(&["rev-parse", "--verify", "--quiet", "refs/heads/gateway/test"]).await.is_err());
}

#[tokio::test(flavor = "current_thread")]
async fn a_failure_leaves_nothing_behind() {
    let repository = Repository::new();
    repository.git(&["branch", "gateway/test"]);
    let before = everything(&repository.source());
    assert!(repository.make().await.is_err(), "the branch is taken");
    assert_eq!(everything(&repository.source()), before, "and the one that was there stays");
    assert!(!repository.folder().exists());
}
