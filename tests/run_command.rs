//! [X4, P2, R1] Any installed command, with its exact arguments, in the project that it can't change.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, time::Instant};

use serde_json::{Value, json};
use tests::{Gateway, Session, tree};

fn run(session: &mut Session, input: &Value) -> (String, bool) {
    let results = session.act(&[("RunCommand", input.clone())]);
    assert_eq!(results.len(), 1, "{results:?}");
    (results[0]["content"].as_str().unwrap().to_owned(), results[0]["is_error"] == true)
}

fn argv(session: &mut Session, words: &[&str]) -> (String, bool) {
    run(session, &json!({"argv": words}))
}

fn shell(session: &mut Session, script: &str) -> String {
    argv(session, &["sh", "-c", script]).0
}

/// A program of the machine's, to make a fixture with. Whether it is there.
fn outside(folder: &Path, words: &[&str]) -> bool {
    let made = Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output();
    made.is_ok_and(|made| made.status.success())
}

#[test]
fn how_it_ended_comes_first_and_only_zero_is_no_error() {
    let gateway = Gateway::start();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    assert_eq!(session.view["network_boundary"]["claude"], "loopback_port_only");
    assert_eq!(session.view["network_boundary"]["commands"], "none");
    assert!(!session.view["network_boundary"]["enforced_by"].as_array().unwrap().is_empty());
    for (script, first, is_error) in [
        ("true", "exit code: 0\n", false),
        ("exit 7", "exit code: 7\n", true),
        ("kill -9 $$", "signal: 9\n", true),
    ] {
        let (text, failed) = argv(&mut session, &["sh", "-c", script]);
        assert!(text.starts_with(first) && failed == is_error, "{script}: {text}");
    }
    let began = Instant::now();
    let (text, failed) = run(&mut session, &json!({"argv": ["sleep", "600"], "timeout_seconds": 1}));
    assert!(text.starts_with("timed out after 1 s") && failed, "{text}");
    assert!(began.elapsed().as_secs() < 300);
    let (text, failed) = argv(&mut session, &["no-such-program"]);
    assert!(failed && text.starts_with("not_found"), "{text}");
}

#[test]
fn arguments_input_directory_and_both_streams_are_exact() {
    let gateway = Gateway::start();
    fs::create_dir(gateway.work.join("deep")).unwrap();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let (text, _) = argv(&mut session, &["printf", "<%s>", "a b", "$HOME", "*", "", "é\n"]);
    assert!(text.contains("<a b><$HOME><*><><é\n>"), "{text}");
    assert!(argv(&mut session, &["pwd"]).0.contains(&format!("\n{}\n", gateway.work.display())));
    let (text, _) = run(&mut session, &json!({"argv": ["pwd"], "cwd": gateway.work.join("deep")}));
    assert!(text.contains("/deep\n"), "{text}");
    assert!(run(&mut session, &json!({"argv": ["cat"], "stdin": "typed"})).0.ends_with("typed"));
    let (text, failed) = argv(&mut session, &["cat"]);
    assert!(!failed && !text.contains("---"), "standard input is empty by default: {text}");
    let text = shell(&mut session, "echo one; echo two >&2; echo three; echo four >&2");
    let (out, err) = text.split_once("--- stderr ---").unwrap();
    assert!(out.ends_with("--- stdout ---\none\nthree\n\n") && err.contains("two\nfour"), "{text}");
    let text =
        shell(&mut session, "echo FIRST; yes filler | head -c 3000000; echo; echo LAST; seq 1 9000 >&2");
    assert!(text.len() <= 64 * 1024 && text.starts_with("exit code: 0\n"), "{}", text.len());
    for part in ["FIRST\n", "LAST\n", "not shown", "\n1\n2\n", "\n9000"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn what_has_no_place_in_a_session_is_refused_by_every_name() {
    let gateway = Gateway::start();
    let link = gateway.work.join("harmless");
    symlink("/bin/rm", &link).unwrap();
    let link = link.to_str().unwrap().to_owned();
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    for words in [
        &["rm", "-r", "x"][..],
        &["/bin/rm", "x"],
        &[&link, "x"],
        &["sudo", "-n", "true"],
        &["env", "A=b", "nice", "-n", "3", "timeout", "5", "rm", "x"],
        &["xargs", "-0", "rm"],
        &["find", ".", "-delete"],
        &["find", ".", "-exec", "true", ";"],
        &["rg", "--pre", "cat", "x"],
        &["kill", "1"],
        &["env", "-S", "rm x"],
    ] {
        let (text, failed) = argv(&mut session, words);
        // A name that this machine lacks is not found; it is not run either way.
        assert!(
            failed && (text.starts_with("refused_command") || text.starts_with("not_found")),
            "{words:?}: {text}"
        );
    }
    assert!(link_is_there(&link));
}

fn link_is_there(link: &str) -> bool {
    fs::symlink_metadata(link).is_ok()
}

#[test]
fn the_project_stays_as_it_is_and_the_scratch_is_the_sessions_own() {
    let gateway = Gateway::with(&[("SECRET_OF_THE_OWNER", "shibboleth"), ("TZ", "Asia/Tokyo")]);
    fs::write(gateway.work.join("a"), "a").unwrap();
    let before = tree::snapshot(&gateway.work);
    let mut session = Session::start(&gateway.client, &gateway.work, "p");
    let mut other = Session::start(&gateway.client, &gateway.work, "q");
    let scratch = format!("{}-work/scratch/{}", gateway.state.display(), session.id);
    let text = shell(
        &mut session,
        "echo x > new || echo x >> a || mkdir d || chmod 777 a || touch a; env; echo kept > $TMPDIR/kept; touch ~/mine",
    );
    assert_eq!(tree::snapshot(&gateway.work), before, "{text}");
    for name in ["HOME", "TMPDIR", "CARGO_TARGET_DIR", "npm_config_cache", "PIP_CACHE_DIR", "GOCACHE"] {
        assert!(text.contains(&format!("\n{name}={scratch}/")), "{name}: {text}");
    }
    assert!(text.contains("\nTZ=Asia/Tokyo\n") && text.contains("CLAUDE_TOOLS_NATIVE_EXECUTOR=0"), "{text}");
    assert!(!text.contains("shibboleth") && !text.contains("CLAUDE_TOOLS_STATE_DIR"), "{text}");
    assert!(shell(&mut session, "cat $TMPDIR/kept").contains("kept"));

    let kept = format!("{scratch}/tmp/kept");
    let (text, _) = argv(&mut other, &["cat", &kept]);
    assert!(text.starts_with("exit code: 1\n") && !text.contains("kept\n\n"), "{text}");
    let listed = shell(&mut other, &format!("ls -a {}/..", scratch));
    assert!(!listed.contains("kept"), "{listed}");
    let parent = format!("{}-work/scratch", gateway.state.display());
    let looks = other.act(&[
        ("Read", json!({"file_path": kept})),
        ("FindFiles", json!({"directory": scratch})),
        ("FindFiles", json!({"directory": parent})),
        ("SearchText", json!({"query": "kept", "path": gateway.state.parent()})),
    ]);
    for look in &looks[..3] {
        assert!(look["content"].as_str().unwrap().starts_with("protected_path"), "{look}");
    }
    assert!(!looks[3]["content"].as_str().unwrap().contains("tmp/kept"), "{}", looks[3]);
    let own = session.act(&[("Read", json!({"file_path": kept}))]);
    assert!(own[0]["content"].as_str().unwrap().contains("kept"), "{own:?}");

    session.stop();
    assert!(!Path::new(&scratch).exists(), "the scratch ends with its session");
    other.stop();
}

#[test]
fn the_usual_tools_build_and_test_a_project_without_a_trace() {
    let gateway = Gateway::start();
    let project = &gateway.work;
    fs::create_dir(project.join("src")).unwrap();
    fs::write(
        project.join("Cargo.toml"),
        "[package]\nname = \"c\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )
    .unwrap();
    fs::write(project.join("src/lib.rs"), "#[test] fn adds() { assert_eq!(1 + 1, 2); }\n").unwrap();
    fs::write(
        project.join("test_a.py"),
        "import unittest\nclass T(unittest.TestCase):\n  def test_a(self): pass\n",
    )
    .unwrap();
    fs::write(project.join("a.test.js"), "require('node:test')('adds', () => {});\n").unwrap();
    fs::write(
        project.join("package.json"),
        r#"{"name":"n","version":"1.0.0","scripts":{"test":"node --test"}}"#,
    )
    .unwrap();
    fs::write(project.join("Makefile"), "all:\n\t@echo made in $(TMPDIR)\n").unwrap();
    outside(project, &["cargo", "generate-lockfile", "--offline"]);
    outside(project, &["git", "init", "-q"]);
    let before = tree::snapshot(project);
    let mut session = Session::start(&gateway.client, project, "p");
    for (words, shown) in [
        (&["cargo", "test"][..], "1 passed"),
        (&["python3", "-m", "unittest"], "OK"),
        (&["npm", "test"], "# pass 1"),
        (&["make"], "made in"),
        (&["git", "status", "--porcelain"], "?? Cargo.toml"),
        (&["rg", "-n", "adds"], "src/lib.rs:1:"),
        (&["grep", "-rn", "adds", "src"], "src/lib.rs:1:"),
    ] {
        let (text, failed) = argv(&mut session, words);
        if text.starts_with("not_found") {
            continue; // not installed here
        }
        assert!(!failed && text.contains(shown), "{words:?}: {text}");
    }
    assert_eq!(tree::snapshot(project), before, "a tool left something in the project");
    fs::remove_file(project.join("Cargo.lock")).unwrap();
    let (text, _) = argv(&mut session, &["cargo", "test"]);
    assert!(text.contains("cargo generate-lockfile") || text.starts_with("not_found"), "{text}");
}
