//! Whatever a making left that was killed, the next one makes it whole, and what is somebody else's stays.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::*;

/// Puts something into the place of the worktree, given the folder, the repository's own folder, and its commit.
type Leave = fn(&Repository, &Path, &Path, &str);

fn entry(common: &Path, name: &str) -> PathBuf {
    let entry = common.join("worktrees").join(name);
    fs::create_dir_all(&entry).unwrap();
    entry
}

/// What git has made of the entry before it makes the folder's files.
fn begun(repository: &Repository, folder: &Path, common: &Path, commit: &str) -> PathBuf {
    repository.git(&["branch", "--no-track", BRANCH, commit]);
    let entry = entry(common, "worktree");
    fs::write(entry.join("locked"), "initializing").unwrap();
    fs::write(entry.join("gitdir"), format!("{}\n", folder.join(".git").display())).unwrap();
    fs::write(entry.join("HEAD"), format!("{}\n", "0".repeat(40))).unwrap();
    fs::write(entry.join("commondir"), "../..\n").unwrap();
    fs::create_dir(folder).unwrap();
    fs::write(folder.join(".git"), format!("gitdir: {}\n", entry.display())).unwrap();
    entry
}

/// As far as the filling of the folder.
fn filling(repository: &Repository, folder: &Path, common: &Path, commit: &str) -> PathBuf {
    let entry = begun(repository, folder, common, commit);
    fs::write(entry.join("HEAD"), format!("ref: refs/heads/{BRANCH}\n")).unwrap();
    fs::remove_file(entry.join("locked")).unwrap();
    fs::write(entry.join("index.lock"), "DIRC").unwrap();
    fs::write(folder.join("a.txt"), "on").unwrap();
    entry
}

/// What a git that was killed leaves, one moment after the other.
const LEFT: &[(&str, Leave)] = &[
    ("nothing", |_, _, _, _| {}),
    ("the branch alone", |repository, _, _, commit| repository.git(&["branch", BRANCH, commit])),
    ("the branch's lock", |_, _, common, _| {
        fs::create_dir_all(common.join("refs/heads/gateway")).unwrap();
        fs::write(common.join("refs/heads/gateway/test.lock"), "").unwrap();
    }),
    ("a branch without its log", |repository, _, common, commit| {
        repository.git(&["branch", BRANCH, commit]);
        fs::remove_file(common.join("logs/refs/heads").join(BRANCH)).unwrap();
        fs::write(common.join("refs/heads/gateway/test.lock"), "").unwrap();
    }),
    ("an empty entry", |_, _, common, _| drop(entry(common, "worktree"))),
    ("an entry that names half a folder", |_, folder, common, _| {
        let names = folder.display().to_string();
        fs::write(entry(common, "worktree").join("gitdir"), &names[..names.len() / 2]).unwrap();
    }),
    ("an entry of a second try", |_, folder, common, _| {
        let names = folder.join(".git").display().to_string();
        fs::write(entry(common, "worktree1").join("gitdir"), names).unwrap();
    }),
    ("an empty folder alone", |_, folder, _, _| fs::create_dir(folder).unwrap()),
    ("an entry without a head", |repository, folder, common, commit| {
        fs::remove_file(begun(repository, folder, common, commit).join("HEAD")).unwrap();
    }),
    ("an entry and an empty folder", |repository, folder, common, commit| {
        drop(begun(repository, folder, common, commit));
    }),
    ("half a folder", |repository, folder, common, commit| {
        drop(filling(repository, folder, common, commit));
    }),
    ("a folder after a power cut", |repository, folder, common, commit| {
        drop(filling(repository, folder, common, commit));
        fs::write(folder.join("a.txt"), [0; 4]).unwrap();
        fs::write(folder.join("crlf.txt"), "one\r\ntwo\0\0").unwrap();
    }),
    ("all but the end", |repository, folder, common, commit| {
        let entry = filling(repository, folder, common, commit);
        fs::remove_file(entry.join("index.lock")).unwrap();
        repository.git_in(folder, &["reset", "-q", "--hard"]);
        fs::write(entry.join("locked"), "initializing").unwrap();
    }),
    ("a folder without its entry", |_, folder, _, _| {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("a.txt"), "one\n").unwrap();
    }),
];

#[tokio::test(flavor = "current_thread")]
async fn from_whatever_was_left_the_next_making_is_whole() {
    for (left, leave) in LEFT {
        let repository = Repository::new();
        let before = everything(&repository.source());
        let commit = repository.said(&["rev-parse", "HEAD"]);
        leave(&repository, &repository.folder(), &repository.source().join(".git"), &commit);
        // What the source is meanwhile does not matter: the commit is recorded.
        fs::write(repository.source().join("new.txt"), "x").unwrap();
        let root = repository.make_at(&repository.neutral().await, &commit).await;
        assert_eq!(root.as_ref().map(PathBuf::as_path).ok(), Some(&*repository.folder()), "{left}: {root:?}");
        fs::remove_file(repository.source().join("new.txt")).unwrap();
        assert_eq!(
            differences(&before, &of_the_owner(&repository.source())),
            Vec::<PathBuf>::new(),
            "{left}"
        );
        assert_eq!(fs::read(repository.folder().join("crlf.txt")).unwrap(), b"one\r\ntwo\r\n", "{left}");
        assert_eq!(repository.said(&["worktree", "list"]).lines().count(), 2, "{left}");
        repository.git_in(&repository.folder(), &["commit", "-q", "--allow-empty", "-m", "usable"]);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn from_whatever_was_left_nothing_stays_where_it_is_not_wanted_any_more() {
    for (left, leave) in LEFT {
        let repository = Repository::new();
        let before = everything(&repository.source());
        let commit = repository.said(&["rev-parse", "HEAD"]);
        leave(&repository, &repository.folder(), &repository.source().join(".git"), &commit);
        let abandoned = repository.abandon_at(&commit).await;
        assert!(abandoned.is_ok(), "{left}: {abandoned:?}");
        assert_eq!(differences(&before, &everything(&repository.source())), Vec::<PathBuf>::new(), "{left}");
        assert!(!repository.source().join(".git/worktrees").exists(), "{left}");
        assert_eq!(fs::read_dir(repository.place.path()).unwrap().count(), 1, "{left}");
    }
}

/// What an owner may have done in the place of the worktree.
const OTHERS: &[(&str, Leave)] = &[
    ("a file", |repository, folder, common, commit| {
        drop(filling(repository, folder, common, commit));
        fs::write(folder.join("notes.txt"), "x").unwrap();
    }),
    ("an ignored file", |repository, folder, common, commit| {
        fs::write(common.join("info/exclude"), "*.log\n").unwrap();
        drop(filling(repository, folder, common, commit));
        fs::write(folder.join("a.log"), "x").unwrap();
    }),
    ("a changed file", |repository, folder, common, commit| {
        drop(filling(repository, folder, common, commit));
        fs::write(folder.join("a.txt"), "one\nmore\n").unwrap();
    }),
    ("a link for a file", |repository, folder, common, commit| {
        drop(filling(repository, folder, common, commit));
        fs::remove_file(folder.join("a.txt")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("a.txt")).unwrap();
    }),
    ("a commit on the branch", |repository, _, _, commit| {
        let tree = repository.said(&["rev-parse", "HEAD^{tree}"]);
        let next = repository.said(&["commit-tree", "-p", commit, "-m", "more", &tree]);
        repository.git(&["branch", BRANCH, &next]);
    }),
    ("the branch checked out", |repository, _, _, _| repository.git(&["checkout", "-q", "-b", BRANCH])),
    ("the branch in another worktree", |repository, folder, _, _| {
        let other = folder.with_file_name("other");
        repository.git(&["worktree", "add", "-q", "-b", BRANCH, other.to_str().unwrap()]);
    }),
    ("another branch in the worktree", |repository, folder, _, _| {
        repository.git(&["worktree", "add", "-q", "-b", "mine", folder.to_str().unwrap()]);
    }),
    ("a lock with a reason", |repository, folder, _, _| {
        let folder = folder.to_str().unwrap();
        repository.git(&["worktree", "add", "-q", "-b", BRANCH, folder]);
        repository.git(&["worktree", "lock", "--reason", "on a stick", folder]);
    }),
    ("a link for the folder", |_, folder, _, _| {
        std::os::unix::fs::symlink("/", folder).unwrap();
    }),
    ("a file for the folder", |_, folder, _, _| fs::write(folder, "x").unwrap()),
];

#[tokio::test(flavor = "current_thread")]
async fn what_is_not_only_the_gateways_stays_as_it_is() {
    for (what, leave) in OTHERS {
        let repository = Repository::new();
        let commit = repository.said(&["rev-parse", "HEAD"]);
        leave(&repository, &repository.folder(), &repository.source().join(".git"), &commit);
        let before = everything(repository.place.path());
        let made = repository.make_at(&repository.neutral().await, &commit).await;
        assert!(matches!(made, Err(WorktreeError::Foreign(_))), "{what}: {made:?}");
        let abandoned = repository.abandon_at(&commit).await;
        assert!(matches!(abandoned, Err(WorktreeError::Foreign(_))), "{what}: {abandoned:?}");
        assert_eq!(
            differences(&before, &everything(repository.place.path())),
            Vec::<PathBuf>::new(),
            "{what}"
        );
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_making_that_is_ended_at_any_moment_is_made_good() {
    let repository = Repository::new();
    for folder in 0..20 {
        let folder = repository.source().join(format!("folder-{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..20 {
            fs::write(folder.join(format!("{file}.txt")), format!("{file}\n").repeat(500)).unwrap();
        }
    }
    repository.git(&["add", "-A"]);
    repository.git(&["commit", "-qm", "many"]);
    let (before, commit) = (everything(&repository.source()), repository.said(&["rev-parse", "HEAD"]));
    let began = std::time::Instant::now();
    repository.make().await.unwrap();
    let whole = began.elapsed();
    repository.abandon_at(&commit).await.unwrap();
    for part in 0..12 {
        let leave = CancellationToken::new();
        let git = repository.neutral().await.until(leave.clone());
        let ending = async {
            tokio::time::sleep(whole * part / 12 + Duration::from_micros(u64::from(part) * 137)).await;
            leave.cancel();
        };
        let (ended, ()) = tokio::join!(repository.make_at(&git, &commit), ending);
        if part % 2 == 0 {
            let made = repository.make_at(&repository.neutral().await, &commit).await;
            assert!(made.is_ok(), "{part}: {made:?} after {ended:?}");
        }
        let abandoned = repository.abandon_at(&commit).await;
        assert!(abandoned.is_ok(), "{part}: {abandoned:?} after {ended:?}");
        assert_eq!(differences(&before, &everything(&repository.source())), Vec::<PathBuf>::new(), "{part}");
        assert!(!repository.folder().exists(), "{part}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_branch_goes_wherever_it_stands_and_under_its_own_lock_where_it_can() {
    for packed in [false, true] {
        let repository = Repository::new();
        let commit = repository.said(&["rev-parse", "HEAD"]);
        repository.git(&["branch", BRANCH, &commit]);
        let shared = repository.source().join(".git/packed-refs.lock");
        if packed {
            repository.git(&["pack-refs", "--all"]);
        } else {
            // Somebody else's git is at the branches that are packed.
            fs::write(&shared, "").unwrap();
        }
        repository.abandon_at(&commit).await.unwrap();
        assert_eq!(shared.exists(), !packed);
        assert_eq!(repository.said(&["branch", "--list", "gateway/*"]), "");
        assert!(!repository.source().join(".git/refs/heads/gateway").exists());
    }
}
