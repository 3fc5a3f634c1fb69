use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
};

use protocol::failure::ToolErrorCode;

use super::*;
use crate::executor::fixture::{Place, code, receipt, text};

fn found(place: &Place, input: &FindFiles) -> String {
    receipt(find_files(input, &place.around())).content
}

/// The listed paths, relative to `work`.
fn listed(place: &Place, input: &FindFiles) -> Vec<String> {
    let prefix = format!("{}/", text(&place.work("")));
    let content = found(place, input);
    let body = content.split_once("\n\n").unwrap().1;
    body.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned()).collect()
}

fn corpus() -> Place {
    let place = Place::build();
    for name in [
        "b.rs",
        "a/z.rs",
        "a/b/c.toml",
        "a.rs",
        "a-b/x.rs",
        "a/b.rs",
        ".hidden",
        "a/.git/config",
        ".gitignore",
    ] {
        place.put(name, "target\n");
    }
    place.put("target/out.rs", "x");
    symlink(place.work("a"), place.work("loop")).unwrap();
    symlink("..", place.work("a/up")).unwrap();
    symlink(place.home().join(".ssh/id"), place.work("key")).unwrap();
    place
}

#[test]
fn files_are_listed_in_the_order_of_their_paths() {
    let place = corpus();
    assert_eq!(
        listed(&place, &FindFiles::default()),
        [
            ".gitignore",
            ".hidden",
            "a/b/c.toml",
            "a/b.rs",
            "a/z.rs",
            "a-b/x.rs",
            "a.rs",
            "b.rs",
            "target/out.rs"
        ]
    );
    let deep = FindFiles { directory: Some(text(&place.work("a"))), ..FindFiles::default() };
    assert_eq!(listed(&place, &deep), ["a/b/c.toml", "a/b.rs", "a/z.rs"]);
}

#[test]
fn what_is_asked_for_is_listed() {
    let place = corpus();
    let glob = |glob: &str| FindFiles { glob: Some(glob.to_owned()), ..FindFiles::default() };
    assert_eq!(listed(&place, &glob("*.toml")), ["a/b/c.toml"]);
    assert_eq!(listed(&place, &glob("a/*.rs")), ["a/b.rs", "a/z.rs"]);
    assert_eq!(listed(&place, &glob("./a/**/*.{rs,toml}")), ["a/b/c.toml", "a/b.rs", "a/z.rs"]);
    assert_eq!(listed(&place, &glob("[ab].rs")), ["a/b.rs", "a.rs", "b.rs"]);
    assert_eq!(code(&find_files(&glob("a[b"), &place.around())), Some(ToolErrorCode::InvalidArgument));
    let of_kind = |kind| FindFiles { kind: Some(kind), ..FindFiles::default() };
    assert_eq!(listed(&place, &of_kind(FileKind::Directory)), ["a/", "a/b/", "a-b/", "target/"]);
    let links = listed(&place, &of_kind(FileKind::Symlink));
    assert!(links[0].starts_with("a/up -> ..") && links.len() == 3, "{links:?}");
    let _socket = UnixListener::bind(place.work("socket")).unwrap();
    assert!(listed(&place, &of_kind(FileKind::Any)).contains(&"socket".to_owned()));
    assert!(!listed(&place, &FindFiles::default()).contains(&"socket".to_owned()));
    let shallow = FindFiles { max_depth: Some(1), ..FindFiles::default() };
    assert_eq!(listed(&place, &shallow), [".gitignore", ".hidden", "a.rs", "b.rs"]);
    let ignoring = FindFiles { respect_gitignore: Some(true), ..FindFiles::default() };
    assert!(!listed(&place, &ignoring).contains(&"target/out.rs".to_owned()));
}

#[test]
fn the_rules_of_gitignore_files_above_and_below_count_where_asked() {
    let place = Place::build();
    fs::create_dir(place.work(".git")).unwrap();
    place.put(".gitignore", "*.log\n!keep.log\n/top\n");
    place.put("sub/.gitignore", "*.tmp\n!*.log\n");
    for name in ["a.log", "keep.log", "top/x", "sub/top", "sub/deep/b.log", "sub/deep/c.tmp", "d.tmp"] {
        place.put(name, "");
    }
    let ignoring = FindFiles { respect_gitignore: Some(true), ..FindFiles::default() };
    let all = listed(&place, &ignoring);
    assert_eq!(all, [".gitignore", "d.tmp", "keep.log", "sub/.gitignore", "sub/deep/b.log", "sub/top"]);
    let below = FindFiles { directory: Some(text(&place.work("sub/deep"))), ..ignoring };
    // Above `deep` stand both files; the nearer one brings the logs back and leaves the `tmp` out.
    assert_eq!(listed(&place, &below), ["sub/deep/b.log"]);
}

#[test]
fn a_cut_is_said_and_is_the_front_of_the_whole() {
    let place = Place::build();
    for n in 0..1_600 {
        place.put(&format!("d{}/a-name-of-some-length-{n:05}", n % 7), "");
    }
    let whole = listed(&place, &FindFiles { limit: Some(10_000), ..FindFiles::default() });
    let mut sorted = whole.clone();
    sorted.sort();
    assert!(whole == sorted && whole.len() < 1_600, "64 KiB hold fewer");
    for limit in [1, 7, 33, 500] {
        let input = FindFiles { limit: Some(limit), ..FindFiles::default() };
        let content = found(&place, &input);
        assert!(content.contains("there are more"), "{content}");
        assert_eq!(listed(&place, &input), whole[..usize::try_from(limit).unwrap()]);
    }
    assert!(found(&place, &FindFiles { limit: Some(10_000), ..FindFiles::default() }).len() <= RECEIPT_BYTES);
    let nothing = FindFiles { glob: Some("*.absent".to_owned()), ..FindFiles::default() };
    assert!(found(&place, &nothing).starts_with("nothing was found"));
}

#[test]
fn protected_entries_are_not_listed_under_any_name() {
    let place = Place::build();
    fs::hard_link(place.home().join(".ssh/id"), place.work("twin")).unwrap();
    place.put("one", "");
    fs::hard_link(place.work("one"), place.work("other-one")).unwrap();
    assert_eq!(listed(&place, &FindFiles::default()), ["one", "other-one"]);
    fs::write(place.home().join(".claude.json"), "").unwrap();
    fs::write(place.home().join("plain"), "").unwrap();
    let home =
        FindFiles { directory: Some(text(&place.home())), kind: Some(FileKind::Any), ..FindFiles::default() };
    let content = found(&place, &home);
    assert!(
        content.contains("/plain") && !content.contains(".ssh") && !content.contains(".claude"),
        "{content}"
    );
    let store = FindFiles { directory: Some(text(&place.home().join(".ssh"))), ..FindFiles::default() };
    assert_eq!(code(&find_files(&store, &place.around())), Some(ToolErrorCode::ProtectedPath));
    symlink(place.home().join(".ssh"), place.work("store")).unwrap();
    let link = FindFiles { directory: Some(text(&place.work("store"))), ..FindFiles::default() };
    assert_eq!(code(&find_files(&link, &place.around())), Some(ToolErrorCode::ProtectedPath));
}

#[test]
fn odd_names_are_one_line_each() {
    let place = Place::build();
    place.put("new\nline", "");
    fs::write(place.work("").join(OsStr::from_bytes(b"caf\xe9")), "").ok();
    place.put("e\u{301}", "");
    let lines = listed(&place, &FindFiles::default());
    assert!(lines.iter().any(|line| line.ends_with("/new\\nline\"")), "{lines:?}");
    assert!(lines.contains(&"e\u{301}".to_owned()));
    if cfg!(target_os = "linux") {
        assert!(lines.iter().any(|line| line.ends_with("/caf\\xe9\"")), "{lines:?}");
    }
}

#[test]
fn a_tree_deeper_than_the_kept_handles_is_walked() {
    let place = Place::build();
    let mut path = String::new();
    for n in 0..150 {
        path.push_str(&format!("d{n}/"));
    }
    place.put(&format!("{path}end"), "");
    assert_eq!(listed(&place, &FindFiles::default()), [format!("{path}end")]);
}

#[test]
fn the_systems_own_files_do_not_hold_it_up() {
    let place = Place::build();
    let input = FindFiles { directory: Some("/proc".to_owned()), max_depth: Some(2), ..FindFiles::default() };
    if cfg!(target_os = "linux") {
        let content = found(&place, &input);
        assert!(
            content.contains("/proc/version") && !content.contains("/proc/1/") && !content.contains("/self/")
        );
        let top = FindFiles {
            directory: Some("/".to_owned()),
            max_depth: Some(2),
            limit: Some(10_000),
            ..FindFiles::default()
        };
        assert!(!found(&place, &top).contains("/proc/"));
    }
}
