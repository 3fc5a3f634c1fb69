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
    assert!(remove(&git, &root, BRANCH).await.unwrap().nothing());
    assert_eq!(repository.canaries(), Vec::<String>::new());
}
