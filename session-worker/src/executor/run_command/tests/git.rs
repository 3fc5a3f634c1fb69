//! Git in the cage runs nothing that a repository brings.

use super::*;

/// Status, diff and log of a repository that wants to run programs of its own.
#[test]
fn git_runs_nothing_of_a_hostile_repository() {
    let bench = Bench::build();
    let proof = bench.scratch().join("tmp/proof");
    let evil = format!("sh -c 'touch {}; cat'", proof.display());
    let git = |arguments: &[&str]| {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e@e"])
            .args(arguments)
            .current_dir(bench.place.work(""))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(status.status.success(), "{arguments:?}: {status:?}");
    };
    git(&["init", "-q"]);
    bench.place.put("a.txt", "one\n");
    bench.place.put(".gitattributes", "*.txt filter=evil diff=evil\n");
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    for key in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.fsmonitor",
        "diff.external",
    ] {
        git(&["config", key, &evil]);
    }
    bench.place.put("a.txt", "two\n");
    for arguments in [&["git", "status", "--porcelain"][..], &["git", "diff"], &["git", "log", "-p"]] {
        let receipt = bench.run(command(arguments));
        assert_eq!(ran(&receipt).end, CommandEnd::Exit(0), "{arguments:?} {}", receipt.content);
        assert!(!proof.exists(), "{arguments:?} ran a program of the repository");
        assert!(receipt.content.contains("a.txt"), "{arguments:?} {}", receipt.content);
    }
    // The repository does what it can where nothing keeps it from it.
    let _ = bench.run(command(&["env", "-u", "GIT_CONFIG_COUNT", "git", "diff"]));
    assert!(proof.exists(), "this test would not have noticed");
}

/// Drivers that come after git was asked, that another repository has, or whose names are odd.
#[test]
fn git_runs_no_driver_that_was_configured_late_or_elsewhere() {
    let bench = Bench::build();
    let proof = bench.scratch().join("tmp/proof");
    let evil = format!("sh -c 'touch {}; cat'", proof.display());
    let git = |folder: &str, arguments: &[&str]| {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e@e"])
            .args(arguments)
            .current_dir(bench.place.work(folder))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(status.status.success(), "{arguments:?}: {status:?}");
    };
    let repository = |folder: &str| {
        bench.place.put(&format!("{folder}a.txt"), "one\n");
        bench.place.put(&format!("{folder}.gitattributes"), "*.txt filter=o.D=d diff=o.D=d\n");
        git(folder, &["init", "-q"]);
        git(folder, &["add", "."]);
        git(folder, &["commit", "-qm", "first"]);
        bench.place.put(&format!("{folder}a.txt"), "two\n");
    };
    let runs_nothing = |arguments: &[&str]| {
        let receipt = bench.run(command(arguments));
        assert_eq!(ran(&receipt).end, CommandEnd::Exit(0), "{arguments:?} {}", receipt.content);
        assert!(!proof.exists(), "{arguments:?} ran a program of the repository");
    };
    repository("");
    git("", &["config", "include.path", "../late"]);
    runs_nothing(&["git", "diff"]);
    let section = |evil: &str| {
        format!("[filter \"o.D=d\"]\n\tclean = \"{evil}\"\n[diff \"o.D=d\"]\n\ttextconv = \"{evil}\"\n")
    };
    bench.place.put("late", section(&evil));
    runs_nothing(&["git", "diff"]);
    repository("nested/");
    git("nested", &["config", "filter.o.D=d.clean", &evil]);
    git("nested", &["config", "diff.o.D=d.textconv", &evil]);
    let nested = bench.place.work("nested");
    for place in ["nested", nested.to_str().unwrap()] {
        runs_nothing(&["git", "-C", place, "diff"]);
        runs_nothing(&["git", "-C", place, "status"]);
    }
    let _ = bench.run(command(&["env", "-u", "GIT_CONFIG_COUNT", "git", "-C", "nested", "diff"]));
    assert!(proof.exists(), "this test would not have noticed");
}

/// A repository whose configuration is too long to be known gets no git at all.
#[test]
fn where_the_configuration_can_not_be_known_no_git_starts() {
    let bench = Bench::build();
    let status = std::process::Command::new("git")
        .args(["init", "-q"])
        .current_dir(bench.place.work(""))
        .status()
        .unwrap();
    assert!(status.success());
    let config = bench.place.work(".git/config");
    let padding: String = (0..40_000).map(|n| format!("[filter \"{n:030}\"]\n\tclean = x\n")).collect();
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap() + &padding).unwrap();
    let refused = bench.run(command(&["git", "status"]));
    assert_ne!(ran(&refused).end, CommandEnd::Exit(0), "{}", refused.content);
    assert!(refused.content.contains("GIT_CONFIG_COUNT"), "{}", refused.content);
    let other = bench.run(command(&["ls"]));
    assert_eq!(ran(&other).end, CommandEnd::Exit(0), "{}", other.content);
}
