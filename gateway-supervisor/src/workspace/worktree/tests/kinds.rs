//! Every kind of repository works, or is refused beforehand with the reason.

use super::*;

/// Makes a directory of a kind from an ordinary repository, and says which.
type Kind = fn(&Repository) -> PathBuf;

/// What is said of it: none where it works.
type Says = Option<fn(&Unsuitable) -> bool>;

fn beside(repository: &Repository, name: &str) -> PathBuf {
    repository.place.path().canonicalize().unwrap().join(name)
}

fn moved(repository: &Repository, name: &str) -> PathBuf {
    let place = beside(repository, name);
    fs::rename(repository.source(), &place).unwrap();
    place
}

fn cloned(repository: &Repository, arguments: &[&str]) -> PathBuf {
    let (place, url) = (beside(repository, "clone"), format!("file://{}", repository.source().display()));
    let all = [&["clone", "-q"], arguments, &[&url, place.to_str().unwrap()]].concat();
    repository.git_in(repository.place.path(), &all);
    place
}

fn fresh(repository: &Repository, arguments: &[&str]) -> PathBuf {
    let place = beside(repository, "fresh");
    let all = [&["init", "-q"], arguments, &[place.to_str().unwrap()]].concat();
    repository.git_in(repository.place.path(), &all);
    fs::write(place.join("a.txt"), "one\n").unwrap();
    repository.git_in(&place, &["add", "-A"]);
    repository.git_in(&place, &["commit", "-qm", "first"]);
    place
}

fn with_submodule(repository: &Repository) -> PathBuf {
    let inner = fresh(repository, &[]);
    repository.git(&["submodule", "--quiet", "add", inner.to_str().unwrap(), "inner"]);
    repository.git(&["commit", "-qm", "submodule"]);
    repository.source()
}

const KINDS: &[(&str, Kind, Says)] = &[
    ("ordinary", |repository| repository.source(), None),
    (
        "a detached head",
        |repository| {
            repository.git(&["checkout", "-q", "--detach"]);
            repository.source()
        },
        None,
    ),
    (
        "a linked worktree",
        |repository| {
            let place = beside(repository, "linked");
            repository.git(&["worktree", "add", "-q", "-b", "linked", place.to_str().unwrap()]);
            place
        },
        None,
    ),
    ("a repository with submodules", with_submodule, None),
    ("a submodule", |repository| with_submodule(repository).join("inner"), None),
    ("a shallow clone", |repository| cloned(repository, &["--depth", "1"]), None),
    (
        "a whole clone that was partial",
        |repository| {
            repository.git(&["config", "uploadpack.allowFilter", "true"]);
            cloned(repository, &["--filter=blob:none"])
        },
        None,
    ),
    ("sha256", |repository| fresh(repository, &["--object-format=sha256"]), None),
    ("spaces, quotes and marks", |repository| moved(repository, "it's \"a\" $(pwd) * ä"), None),
    ("a line break", |repository| moved(repository, "a\nb"), None),
    ("a line break at the end", |repository| moved(repository, "a\n"), None),
    (
        "pointers of a filter",
        |repository| {
            fs::write(repository.source().join(".gitattributes"), "*.bin filter=lfs -text\n").unwrap();
            fs::write(repository.source().join("x.bin"), "version https://git-lfs\n").unwrap();
            repository.git(&["add", "-A"]);
            repository.git(&["commit", "-qm", "pointer"]);
            repository.git(&["config", "filter.lfs.process", "git-lfs filter-process"]);
            repository.git(&["config", "filter.lfs.required", "true"]);
            repository.source()
        },
        None,
    ),
    (
        "converted line ends",
        |repository| {
            repository.git(&["config", "core.autocrlf", "true"]);
            repository.source()
        },
        None,
    ),
    (
        "a split index",
        |repository| {
            repository.git(&["update-index", "--split-index"]);
            repository.source()
        },
        None,
    ),
    (
        "files named for each worktree",
        |repository| {
            let top = repository.source();
            repository.git(&["config", "extensions.worktreeConfig", "true"]);
            repository.git(&["config", "--worktree", "core.worktree", top.to_str().unwrap()]);
            top
        },
        None,
    ),
    (
        "files named once for all worktrees",
        |repository| {
            let top = repository.source();
            repository.git(&["config", "extensions.worktreeConfig", "true"]);
            repository.git(&["config", "core.worktree", top.to_str().unwrap()]);
            top
        },
        Some(|why| matches!(why, Unsuitable::OneForAll)),
    ),
    (
        "below the top",
        |repository| {
            let below = repository.source().join("below");
            fs::create_dir(&below).unwrap();
            below
        },
        Some(|why| matches!(why, Unsuitable::NotTop)),
    ),
    (
        "no commit",
        |repository| {
            repository.git(&["checkout", "-q", "--orphan", "new"]);
            repository.source()
        },
        Some(|why| matches!(why, Unsuitable::NoCommit)),
    ),
    ("bare", |repository| cloned(repository, &["--bare"]), Some(|why| matches!(why, Unsuitable::Bare))),
    (
        "sparse",
        |repository| {
            repository.git(&["sparse-checkout", "set", "none"]);
            repository.source()
        },
        Some(|why| matches!(why, Unsuitable::Sparse)),
    ),
    (
        "a rebase under way",
        |repository| {
            fs::create_dir(repository.source().join(".git/rebase-merge")).unwrap();
            repository.source()
        },
        Some(|why| matches!(why, Unsuitable::UnderWay("rebase"))),
    ),
    (
        "a bisection under way",
        |repository| {
            repository.git(&["bisect", "start"]);
            repository.source()
        },
        Some(|why| matches!(why, Unsuitable::UnderWay("bisect"))),
    ),
    (
        "a folder of its own elsewhere",
        |repository| {
            fresh(repository, &["--separate-git-dir", beside(repository, "folder").to_str().unwrap()])
        },
        Some(|why| matches!(why, Unsuitable::Elsewhere)),
    ),
    (
        "damaged configuration",
        |repository| {
            fs::write(repository.source().join(".git/config"), "[core\n").unwrap();
            repository.source()
        },
        Some(|why| matches!(why, Unsuitable::Git(_))),
    ),
];

#[tokio::test(flavor = "current_thread")]
async fn every_kind_works_or_is_refused_with_the_reason() {
    for git in gits() {
        for (kind, make_it, says) in KINDS {
            let repository = Repository::with(&git);
            let place = make_it(&repository);
            let before = of_the_owner(&place);
            let made = made(&repository, &place).await;
            let mut changed = differences(&before, &of_the_owner(&place));
            // Git notes on the file of a shared index when it was last used; its bytes stay.
            changed.retain(|path| {
                !path.starts_with(".git") || !path.to_string_lossy().contains("/sharedindex.")
            });
            assert_eq!(changed, Vec::<PathBuf>::new(), "{kind} with {git:?}");
            match (made, says) {
                (Ok(root), None) => {
                    repository.git_in(&root, &["write-tree"]);
                }
                (Err(WorktreeError::Unsuitable(why)), Some(says)) if says(&why) => {}
                (made, _) => panic!("{kind} with {git:?}: {made:?}"),
            }
        }
    }
}

async fn made(repository: &Repository, place: &Path) -> Result<PathBuf, WorktreeError> {
    let git = Git::neutral(&repository.git_place, place).await.map_err(Unsuitable::Git)?;
    let base = examine(&git).await?;
    let folder = repository.folder();
    make(&git, Site { folder: &folder, branch: BRANCH, commit: &base.commit }).await
}

#[tokio::test(flavor = "current_thread")]
async fn references_in_tables_work_where_git_knows_them() {
    for git in gits() {
        let repository = Repository::with(&git);
        let place = beside(&repository, "fresh");
        let init = ["init", "-q", "--ref-format=reftable", place.to_str().unwrap()];
        if !repository.command(repository.place.path(), &init).output().unwrap().status.success() {
            continue;
        }
        let place = fresh(&repository, &["--ref-format=reftable"]);
        made(&repository, &place).await.unwrap();
        let commit =
            repository.said(&["--git-dir", place.join(".git").to_str().unwrap(), "rev-parse", "HEAD"]);
        let (git, folder) = (Git::neutral(&repository.git_place, &place).await.unwrap(), repository.folder());
        abandon(&git, Site { folder: &folder, branch: BRANCH, commit: &commit }).await.unwrap();
        assert!(!folder.exists());
    }
}

#[tokio::test(flavor = "current_thread")]
async fn another_users_repository_is_refused_with_the_way_to_allow_it() {
    if !nix::unistd::geteuid().is_root() {
        // Only root can give a folder away.
        return;
    }
    let repository = Repository::new();
    for place in [repository.source(), repository.source().join(".git")] {
        std::os::unix::fs::chown(place, Some(4242), Some(4242)).unwrap();
    }
    let refused = repository.suits(&repository.source()).await;
    assert!(matches!(refused, Err(Unsuitable::OtherOwner)), "{refused:?}");
    let source = repository.source();
    repository.git_in(
        repository.place.path(),
        &["config", "--global", "--add", "safe.directory", source.to_str().unwrap()],
    );
    repository.make().await.unwrap();
}
