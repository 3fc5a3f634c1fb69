//! A worktree goes only when nothing in it would be lost, and what was begun of that is completed.

use super::{remove::Look, *};

async fn look(repository: &Repository) -> Look {
    remove::look(&repository.neutral().await, &repository.folder(), BRANCH).await.unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn a_worktree_is_removed_only_when_nothing_would_be_lost() {
    let repository = Repository::new();
    let before = everything(&repository.source());
    let root = repository.make().await.unwrap();
    fs::write(root.join("work.txt"), "x").unwrap();
    assert_eq!(repository.remove().await, Some(Look::Holds { files: 1, commits: 0 }));
    repository.git_in(&root, &["add", "-A"]);
    repository.git_in(&root, &["commit", "-qm", "work"]);
    assert_eq!(repository.remove().await, Some(Look::Holds { files: 0, commits: 1 }));
    assert!(root.join("work.txt").exists());
    repository.git(&["update-ref", "refs/heads/taken", BRANCH]);
    assert_eq!(repository.remove().await, None);
    assert!(!root.exists());
    assert_eq!(look(&repository).await, Look::Gone);
    repository.git(&["update-ref", "-d", "refs/heads/taken"]);
    let mut changed = differences(&before, &everything(&repository.source()));
    // The objects of the owner's own commit.
    changed.retain(|path| !path.starts_with(".git/objects"));
    assert_eq!(changed, Vec::<PathBuf>::new());
}

/// Does something in the worktree as its owner may.
type Do = fn(&Repository, &Path);

/// What is said of that.
type Says = fn(&Look) -> bool;

const KEPT: &[(&str, Do, Says)] = &[
    (
        "an ignored file",
        |repository, root| {
            fs::write(repository.source().join(".git/info/exclude"), "*.log\n").unwrap();
            fs::write(root.join("a.log"), "x").unwrap();
        },
        |look| *look == Look::Holds { files: 1, commits: 0 },
    ),
    (
        "a lock",
        |repository, root| repository.git(&["worktree", "lock", root.to_str().unwrap()]),
        |look| matches!(look, Look::InUse(how) if how.contains("unlock")),
    ),
    (
        "another branch",
        |repository, root| repository.git_in(root, &["checkout", "-q", "-b", "mine"]),
        |look| matches!(look, Look::InUse(_)),
    ),
    (
        "a detached commit",
        |repository, root| repository.git_in(root, &["checkout", "-q", "--detach"]),
        |look| matches!(look, Look::InUse(_)),
    ),
    (
        "a merge",
        |_, root| {
            let own = fs::read_to_string(root.join(".git")).unwrap();
            fs::write(Path::new(own["gitdir: ".len()..].trim()).join("MERGE_HEAD"), "x").unwrap();
        },
        |look| matches!(look, Look::InUse(how) if how.contains("merge")),
    ),
    (
        "a ref of the worktree alone",
        |repository, root| {
            repository.git_in(root, &["commit", "-q", "--allow-empty", "-m", "only here"]);
            repository.git_in(root, &["update-ref", "refs/worktree/mine", "HEAD"]);
            repository.git_in(root, &["reset", "-q", "--hard", "HEAD~"]);
        },
        |look| *look == Look::Holds { files: 0, commits: 1 },
    ),
    (
        "a nested repository",
        |repository, root| {
            fs::create_dir(root.join("nested")).unwrap();
            repository.git_in(&root.join("nested"), &["init", "-q"]);
        },
        |look| *look == Look::Holds { files: 1, commits: 0 },
    ),
];

#[tokio::test(flavor = "current_thread")]
async fn whatever_else_an_owner_has_there_keeps_it() {
    for (what, leave, says) in KEPT {
        let repository = Repository::new();
        let root = repository.make().await.unwrap();
        leave(&repository, &root);
        let before = everything(repository.place.path());
        let said = repository.remove().await;
        assert!(said.as_ref().is_some_and(says), "{what}: {said:?}");
        assert_eq!(
            differences(&before, &everything(repository.place.path())),
            Vec::<PathBuf>::new(),
            "{what}"
        );
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_changed_file_that_git_was_told_not_to_look_at_keeps_it() {
    let repository = Repository::new();
    let root = repository.make().await.unwrap();
    repository.git_in(&root, &["update-index", "--assume-unchanged", "a.txt"]);
    fs::write(root.join("a.txt"), "mine\n").unwrap();
    let looked = remove::look(&repository.neutral().await, &root, BRANCH).await;
    assert!(matches!(looked, Err(WorktreeError::Foreign(_))), "{looked:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_removal_is_completed_from_wherever_it_stopped() {
    let stages: &[fn(&Path, &Path)] = &[
        |root, _| fs::remove_file(root.join("a.txt")).unwrap(),
        |root, _| fs::remove_file(root.join(".git")).unwrap(),
        |root, _| fs::remove_dir_all(root).unwrap(),
        |root, entry| {
            fs::remove_dir_all(root).unwrap();
            fs::remove_file(entry.join("gitdir")).unwrap();
        },
        |root, entry| {
            fs::remove_dir_all(root).unwrap();
            fs::remove_dir_all(entry).unwrap();
        },
    ];
    for (number, stop) in stages.iter().enumerate() {
        let repository = Repository::new();
        let before = everything(&repository.source());
        let (root, git) = (repository.make().await.unwrap(), repository.neutral().await);
        let Look::Free { commit } = look(&repository).await else { panic!("it is free") };
        stop(&root, &repository.source().join(".git/worktrees/worktree"));
        let site = Site { folder: &root, branch: BRANCH, commit: &commit };
        remove::remove(&git, site).await.unwrap();
        assert!(!root.exists(), "{number}");
        assert_eq!(
            differences(&before, &everything(&repository.source())),
            Vec::<PathBuf>::new(),
            "{number}"
        );
        // What came in since the look stays.
        repository.make().await.unwrap();
        fs::write(root.join("late.txt"), "x").unwrap();
        let late = remove::remove(&git, site).await;
        assert!(matches!(late, Err(WorktreeError::Foreign(_))), "{number}: {late:?}");
        assert!(root.join("late.txt").exists());
    }
}
