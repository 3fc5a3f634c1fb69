use super::*;
use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicU32, Ordering},
};

/// A home below a folder of its own, removed at the end.
struct House {
    folder: tempfile::TempDir,
}

impl House {
    fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::create_dir_all(home.join("project/.claude")).unwrap();
        fs::write(home.join(".ssh/id"), "secret").unwrap();
        fs::write(home.join(".netrc"), "secret").unwrap();
        fs::write(home.join("project/.npmrc"), "open").unwrap();
        House { folder }
    }
    fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("home")
    }
    fn protected(&self) -> Protected {
        Protected::gather(&ProtectedSources {
            homes: vec![self.home()],
            own: vec![self.home().join("state")],
            added: vec![self.home().join("diary")],
            ..ProtectedSources::default()
        })
    }
}

fn is_open(protected: &Protected, path: &Path) -> bool {
    protected.judge(path, None) == Judgement::Open
}

fn is_open_file(protected: &Protected, path: &Path) -> bool {
    protected.judge_opened(&File::open(path).unwrap()).unwrap() == Judgement::Open
}

#[test]
fn stores_are_protected_below_the_homes_only() {
    let house = House::build();
    let (home, protected) = (house.home(), house.protected());
    for name in [
        ".ssh",
        ".ssh/id",
        ".ssh/deep/er",
        ".gnupg/x",
        ".aws/credentials",
        ".netrc",
        ".npmrc",
        ".config/gh/hosts.yml",
        ".claude",
        ".claude/x",
        ".claude.json",
        ".claude.json.backup",
        ".codex/auth.json",
        ".docker/config.json",
        ".cargo/credentials.toml",
        ".mozilla/firefox",
        "state/token",
        "diary/today",
    ] {
        assert!(!is_open(&protected, &home.join(name)), "{name} is open");
    }
    for name in [
        "",
        ".sshx",
        ".cargo/registry",
        ".cargo/config.toml",
        ".docker/other",
        ".config/ghostty",
        "project/.npmrc",
        "project/.claude/settings.json",
        "project/.ssh/x",
        "diaryx",
        ".bashrc",
    ] {
        assert!(is_open(&protected, &home.join(name)), "{name} is protected");
    }
}

#[test]
fn the_system_and_every_process_are_protected() {
    let protected = House::build().protected();
    for path in [
        "/etc/shadow",
        "/etc/gshadow-",
        "/proc/1",
        "/proc/1/environ",
        "/proc/self/mem",
        "/proc/thread-self/x",
        "/proc/kcore",
    ] {
        assert!(!is_open(&protected, Path::new(path)), "{path} is open");
    }
    for path in ["/etc/passwd", "/proc/cpuinfo", "/proc/sys/kernel/hostname", "/process/1/x", "/"] {
        assert!(is_open(&protected, Path::new(path)), "{path} is protected");
    }
}

#[test]
fn links_in_both_directions_are_followed() {
    let house = House::build();
    let home = house.home();
    // A store that is itself a link: its target is protected as well as its name.
    let elsewhere = house.folder.path().canonicalize().unwrap().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("key"), "secret").unwrap();
    symlink(&elsewhere, home.join(".gnupg")).unwrap();
    // An innocent name that leads into a store.
    symlink(home.join(".ssh/id"), home.join("project/notes")).unwrap();
    let protected = house.protected();
    assert!(!is_open(&protected, &elsewhere.join("key")));
    assert!(!is_open(&protected, &home.join(".gnupg")));
    assert!(!is_open_file(&protected, &home.join("project/notes")));
    assert!(!is_open_file(&protected, &home.join(".gnupg/key")));
    assert!(is_open_file(&protected, &home.join("project/.npmrc")));
}

#[test]
fn another_hard_link_of_a_protected_file_is_protected() {
    let house = House::build();
    let home = house.home();
    let protected = house.protected();
    fs::hard_link(home.join(".ssh/id"), home.join("project/innocent")).unwrap();
    fs::hard_link(home.join("project/.npmrc"), home.join("project/twin")).unwrap();
    let judge = |name: &str| protected.judge_opened(&File::open(home.join(name)).unwrap()).unwrap();
    assert_eq!(judge("project/innocent"), Judgement::Protected(ProtectedBy::HardLink));
    assert_eq!(judge("project/twin"), Judgement::Open);
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_is_protected_through_any_descriptor() {
    let protected = House::build().protected();
    assert!(!is_open_file(&protected, Path::new("/proc/self/status")));
    assert!(is_open_file(&protected, Path::new("/proc/version")));
}

#[test]
fn paths_to_hide_hold_no_path_below_another() {
    let house = House::build();
    fs::write(house.home().join(".claude.json.backup.7"), "").unwrap();
    let protected = Protected::gather(&ProtectedSources {
        homes: vec![house.home()],
        own: vec![house.home().join("state"), house.home().join("state/sessions")],
        added: vec![PathBuf::from("relative/is/ignored")],
        ..ProtectedSources::default()
    });
    let paths = protected.paths();
    assert!(paths.iter().any(|path| path.as_path() == house.home().join("state")));
    assert!(paths.iter().any(|path| path.as_path() == house.home().join(".claude.json.backup.7")));
    for path in &paths {
        assert!(!paths.iter().any(|other| other != path && path.starts_with(other)), "{}", path.display());
    }
}

#[test]
fn judging_from_many_threads_looks_at_the_stores_once_in_a_while() {
    let house = House::build();
    let home = house.home();
    fs::hard_link(home.join(".netrc"), home.join("project/innocent")).unwrap();
    let protected = house.protected();
    let refused = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    if !is_open_file(&protected, &home.join("project/innocent")) {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(refused.load(Ordering::Relaxed), 200);
}

#[test]
fn beside_ones_own_folder_everything_is_others() {
    let house = House::build();
    let scratch = house.home().join("scratch");
    let (own, other) = (scratch.join("one"), scratch.join("two"));
    for folder in [&own, &other] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("file"), "x").unwrap();
    }
    let sources = ProtectedSources { alone_below: vec![own.clone()], ..ProtectedSources::default() };
    let protected = Protected::gather(&sources);
    for open in [&own, &own.join("file"), &own.join("not/yet"), &house.home()] {
        assert!(is_open(&protected, open), "{} is protected", open.display());
    }
    for closed in [&scratch, &other, &other.join("file"), &scratch.join("later/file"), &scratch.join("onex")]
    {
        assert!(!is_open(&protected, closed), "{} is open", closed.display());
    }
    assert!(protected.reaches_below(&house.home()) && !is_open_file(&protected, &other.join("file")));
    assert!(protected.paths().iter().all(|path| !own.starts_with(path)), "a cage must not hide one's own");
}

#[test]
fn other_names_of_protected_files_are_found_below_a_root() {
    let house = House::build();
    let (home, project) = (house.home(), house.home().join("project"));
    assert!(house.protected().other_names_below(std::slice::from_ref(&project)).is_empty());
    fs::create_dir(project.join("deep")).unwrap();
    fs::hard_link(home.join(".ssh/id"), project.join("deep/innocent")).unwrap();
    fs::hard_link(home.join(".netrc"), home.join(".ssh/netrc")).unwrap();
    let found = house.protected().other_names_below(std::slice::from_ref(&project));
    assert_eq!(found, [AbsolutePath::new(project.join("deep/innocent")).unwrap()]);
    assert!(house.protected().other_names_below(&[home.join(".ssh")]).is_empty());
}
