//! Nothing that a repository names is started or followed.

use super::*;

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
    let git = repository.neutral().await;
    let base = examine(&git).await.unwrap();
    assert!(base.notes.iter().any(|note| note.contains("filter")), "{:?}", base.notes);
    let root = repository.make().await.unwrap();
    assert!(root.exists());
    assert_eq!(repository.remove().await, None);
    assert_eq!(repository.canaries(), Vec::<String>::new());
}

/// A way to configure a driver `NAME` whose program is `PROGRAM`.
type Configure = fn(&Repository, &str, &str);

fn section(name: &str, program: &str) -> String {
    format!(
        "[filter \"{name}\"]\n\tclean = {program}\n\tsmudge = {program}\n\trequired = true\n[diff \"{name}\"]\n\ttextconv = {program}\n\tcommand = {program}\n"
    )
}

fn append(file: &Path, text: &str) {
    let before = fs::read_to_string(file).unwrap_or_default();
    fs::write(file, before + text).unwrap();
}

fn included(repository: &Repository, condition: &str, (name, program): (&str, &str)) {
    let own = repository.source().join(".git");
    fs::write(own.join("more"), section(name, program)).unwrap();
    append(&own.join("config"), &format!("[includeIf \"{condition}\"]\n\tpath = more\n"));
}

/// Where a driver may be configured: not everywhere where git runs the same is seen.
const WAYS: &[(&str, Configure)] = &[
    ("the repository", |repository, name, program| {
        append(&repository.source().join(".git/config"), &section(name, program));
    }),
    ("an include", |repository, name, program| {
        let own = repository.source().join(".git");
        fs::write(own.join("more"), section(name, program)).unwrap();
        append(&own.join("config"), "[include]\n\tpath = more\n");
    }),
    ("an include for worktrees alone", |repository, name, program| {
        included(repository, "gitdir:**/worktrees/**", (name, program));
    }),
    ("an include for the session's branch alone", |repository, name, program| {
        included(repository, "onbranch:gateway/**", (name, program));
    }),
    ("an include for a remote", |repository, name, program| {
        append(&repository.source().join(".git/config"), "[remote \"o\"]\n\turl = https://x.invalid/y\n");
        included(repository, "hasconfig:remote.*.url:https://x.invalid/**", (name, program));
    }),
    ("the configuration of worktrees", |repository, name, program| {
        repository.git(&["config", "extensions.worktreeConfig", "true"]);
        fs::write(repository.source().join(".git/config.worktree"), section(name, program)).unwrap();
    }),
];

#[tokio::test(flavor = "current_thread")]
async fn no_driver_runs_whatever_its_name_and_wherever_it_is_configured() {
    for git in gits() {
        for (way, configure) in WAYS {
            for name in ["plain", "With.Dots", "a=b", "ä", ""] {
                let repository = Repository::with(&git);
                let program = repository.canary("driver");
                let attributes = format!("*.txt filter={name} diff={name}\n");
                fs::write(repository.source().join(".gitattributes"), attributes).unwrap();
                repository.git(&["commit", "-qam", "attributes"]);
                configure(&repository, name, &program);
                let root = repository.make().await.unwrap_or_else(|e| panic!("{way} {name:?}: {e}"));
                assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"one\n", "{way} {name:?}");
                assert_eq!(repository.remove().await, None, "{way} {name:?}");
                // Half a worktree is compared as well.
                let commit = repository.said(&["rev-parse", "HEAD"]);
                fs::create_dir(repository.folder()).unwrap();
                fs::write(repository.folder().join("a.txt"), "on").unwrap();
                repository.abandon_at(&commit).await.unwrap_or_else(|e| panic!("{way} {name:?}: {e}"));
                assert_eq!(repository.canaries(), Vec::<String>::new(), "{way} {name:?} of {git:?}");
            }
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_driver_that_nothing_silences_would_tell_that_it_ran() {
    let repository = Repository::new();
    let program = repository.canary("driver");
    fs::write(repository.source().join(".gitattributes"), "*.txt filter=plain\n").unwrap();
    repository.git(&["commit", "-qam", "attributes"]);
    included(&repository, "gitdir:**/worktrees/**", ("plain", &program));
    repository.git(&["worktree", "add", "-q", "-b", "mine", repository.folder().to_str().unwrap()]);
    assert_eq!(repository.canaries(), ["driver"]);
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_is_fetched_whatever_transport_is_allowed() {
    for git in gits() {
        let repository = Repository::with(&git);
        let program = repository.canary("transport");
        for (name, value) in [
            ("protocol.ext.allow", "always"),
            ("remote.origin.url", &*format!("ext::{program}")),
            ("remote.origin.promisor", "true"),
            ("remote.origin.partialclonefilter", "blob:none"),
            ("extensions.partialClone", "origin"),
            ("core.repositoryFormatVersion", "1"),
        ] {
            repository.git(&["config", name, value]);
        }
        let blob = repository.said(&["rev-parse", "HEAD:a.txt"]);
        fs::remove_file(repository.source().join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
        // A changed file has git compare contents.
        fs::write(repository.source().join("a.txt"), "two\n").unwrap();
        let refused = repository.suits(&repository.source()).await;
        assert!(matches!(refused, Err(Unsuitable::Partial(1))), "{refused:?}");
        let commit = repository.said(&["rev-parse", "HEAD"]);
        assert!(repository.make_at(&repository.neutral().await, &commit).await.is_err());
        assert_eq!(repository.canaries(), Vec::<String>::new(), "{git:?}");
        assert!(!repository.folder().exists());
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_repository_that_leads_to_another_one_is_refused_and_that_one_stays() {
    type Lead = fn(&Path, &Path);
    let leads: &[(&str, Lead)] = &[
        ("a file", |place, other| {
            fs::write(place.join(".git"), format!("gitdir: {}\n", other.join(".git").display())).unwrap();
        }),
        ("a link", |place, other| {
            std::os::unix::fs::symlink(other.join(".git"), place.join(".git")).unwrap();
        }),
        ("a common folder", |place, other| {
            fs::create_dir(place.join(".git")).unwrap();
            fs::copy(other.join(".git/HEAD"), place.join(".git/HEAD")).unwrap();
            fs::copy(other.join(".git/index"), place.join(".git/index")).unwrap();
            fs::write(place.join(".git/commondir"), other.join(".git").display().to_string()).unwrap();
        }),
        ("a worktree's entry", |place, other| {
            let entry = other.join(".git/worktrees/theirs");
            fs::create_dir_all(&entry).unwrap();
            fs::copy(other.join(".git/HEAD"), entry.join("HEAD")).unwrap();
            fs::copy(other.join(".git/index"), entry.join("index")).unwrap();
            fs::write(entry.join("commondir"), "../..\n").unwrap();
            fs::write(entry.join("gitdir"), format!("{}\n", other.join("elsewhere/.git").display())).unwrap();
            fs::create_dir(other.join("elsewhere")).unwrap();
            fs::write(other.join("elsewhere/.git"), format!("gitdir: {}\n", entry.display())).unwrap();
            fs::write(place.join(".git"), format!("gitdir: {}\n", entry.display())).unwrap();
        }),
    ];
    for (how, lead) in leads {
        let repository = Repository::new();
        let place = repository.place.path().join("place");
        fs::create_dir(&place).unwrap();
        for file in ["a.txt", "crlf.txt", ".gitattributes"] {
            fs::copy(repository.source().join(file), place.join(file)).unwrap();
        }
        lead(&place, &repository.source());
        let before = everything(repository.place.path());
        let refused = repository.suits(&place).await;
        assert!(matches!(refused, Err(Unsuitable::Elsewhere)), "{how}: {refused:?}");
        assert_eq!(
            differences(&before, &everything(repository.place.path())),
            Vec::<PathBuf>::new(),
            "{how}"
        );
    }
    let repository = Repository::new();
    repository.git(&["config", "core.worktree", repository.place.path().to_str().unwrap()]);
    let refused = repository.suits(&repository.source()).await;
    assert!(matches!(refused, Err(Unsuitable::NotTop)), "{refused:?}");
}
