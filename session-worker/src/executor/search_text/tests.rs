use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    os::unix::{ffi::OsStrExt, fs::symlink},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use proptest::prelude::*;
use protocol::failure::ToolErrorCode;

use super::*;
use crate::executor::fixture::{Place, code, receipt, text};

fn query(query: &str) -> SearchText {
    SearchText { query: query.to_owned(), ..SearchText::default() }
}

fn found(place: &Place, input: &SearchText) -> String {
    let content = receipt(search_text(input, &place.around())).content;
    assert!(content.len() <= RECEIPT_BYTES);
    content
}

/// The hits, with paths relative to `work`.
fn hits(place: &Place, input: &SearchText) -> Vec<String> {
    let work = format!("{}/", text(&place.work("")));
    let content = found(place, input);
    let body = content.split_once("\n\n").unwrap().1;
    body.lines().map(|line| line.strip_prefix(&work).unwrap_or(line).to_owned()).collect()
}

#[test]
fn a_literal_is_found_with_its_place() {
    let place = Place::build();
    place.put("src/alpha.rs", "fn a() {}\n  let x = \"needle (x.y)*\"; // needle (x.y)*\n");
    place.put("src/beta.txt", b"one\r\nneedle (x.y)*\r\nthree");
    place.put("é.txt", "ééneedle (x.y)*");
    place.put("other", "needle xxyy needle (x.y)\n");
    place.put(".git/config", "needle (x.y)*\n");
    place.put("src/.git", "needle (x.y)*\n");
    assert_eq!(
        hits(&place, &query("needle (x.y)*")),
        [
            "src/alpha.rs:2:12:  let x = \"needle (x.y)*\"; // needle (x.y)*",
            "src/beta.txt:2:1:needle (x.y)*",
            "é.txt:1:3:ééneedle (x.y)*",
        ]
    );
    let content = found(&place, &query("needle (x.y)*"));
    assert!(content.starts_with("3 lines in 3 files hold"), "{content}");
    assert!(found(&place, &query("absent")).starts_with("no line holds \"absent\": 4 files searched"));
}

#[test]
fn the_search_is_as_wide_as_asked() {
    let place = Place::build();
    for name in ["a.rs", "a/b.rs", "a/c.txt", "target/d.rs"] {
        place.put(name, "Straße\n");
    }
    place.put(".gitignore", "target\n");
    let with = |change: fn(&mut SearchText)| {
        let mut input = query("Straße");
        change(&mut input);
        hits(&place, &input).iter().map(|hit| hit.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(with(|_| {}), ["a/b.rs", "a/c.txt", "a.rs", "target/d.rs"]);
    assert_eq!(with(|input| input.glob = Some("*.rs".into())), ["a/b.rs", "a.rs", "target/d.rs"]);
    assert_eq!(with(|input| input.respect_gitignore = Some(true)), ["a/b.rs", "a/c.txt", "a.rs"]);
    assert_eq!(with(|input| input.query = "STRASSE".into()), Vec::<String>::new());
    assert_eq!(with(|input| (input.query, input.ignore_case) = ("STRAßE".into(), Some(true))).len(), 4);
    let one = SearchText { path: Some(text(&place.work("a/c.txt"))), ..query("Straße") };
    assert_eq!(hits(&place, &one), ["a/c.txt:1:1:Straße"]);
    let none = SearchText { glob: Some("*.rs".into()), ..one };
    assert!(found(&place, &none).starts_with("no line holds"));
}

#[test]
fn lines_around_are_shown_once() {
    let place = Place::build();
    place.put("a", "1\n2\nhit 3\n4\nhit 5\n6\n7\n8\n9\nhit 10");
    let input = SearchText { context: Some(1), ..query("hit") };
    assert_eq!(
        hits(&place, &input),
        ["a-2-2", "a:3:1:hit 3", "a-4-4", "a:5:1:hit 5", "a-6-6", "--", "a-9-9", "a:10:1:hit 10"]
    );
    let wide = SearchText { context: Some(20), ..query("hit 3") };
    assert_eq!(hits(&place, &wide).len(), 10);
    place.put("a", "hit\n");
    assert_eq!(hits(&place, &wide), Vec::<String>::new());
    assert_eq!(hits(&place, &input), ["a:1:1:hit"]);
}

#[test]
fn what_is_no_text_is_left_out_and_counted() {
    let place = Place::build();
    place.put("binary", b"\0needle\n");
    place.put("latin1", b"caf\xe9 needle\nneedle\n");
    mkfifo(&place.work("fifo"), Mode::S_IRWXU).unwrap();
    symlink(place.work("latin1"), place.work("link")).unwrap();
    symlink(place.work(""), place.work("circle")).unwrap();
    let content = found(&place, &query("needle"));
    assert!(content.contains("[1 binary files were left out]"), "{content}");
    assert!(content.contains("[1 lines with it are not shown because they are not UTF-8]"), "{content}");
    assert_eq!(hits(&place, &query("needle")), ["latin1:2:1:needle"]);
    let fifo = SearchText { path: Some(text(&place.work("fifo"))), ..query("x") };
    assert_eq!(code(&search_text(&fifo, &place.around())), Some(ToolErrorCode::NotRegular));
}

#[test]
fn protected_files_are_not_searched_under_any_name() {
    let place = Place::build();
    fs::hard_link(place.home().join(".ssh/id"), place.work("twin")).unwrap();
    place.put("open", "needle\n");
    fs::hard_link(place.work("open"), place.work("open-twin")).unwrap();
    assert_eq!(hits(&place, &query("needle")), ["open:1:1:needle", "open-twin:1:1:needle"]);
    let home = SearchText { path: Some(text(place.home().parent().unwrap())), ..query("needle") };
    let content = found(&place, &home);
    assert!(!content.contains("secret") && content.contains("protected entries were left out"), "{content}");
    for name in [".ssh", ".ssh/id"] {
        let store = SearchText { path: Some(text(&place.home().join(name))), ..query("needle") };
        assert_eq!(code(&search_text(&store, &place.around())), Some(ToolErrorCode::ProtectedPath));
    }
}

#[test]
fn a_long_line_is_shown_around_the_text() {
    let place = Place::build();
    for (before, after) in [(0, 5_000), (5_000, 0), (3_000, 3_000), (1_500_000, 10), (3_000_000, 3_000_000)] {
        place.put("long", format!("first\n{}needle{}\nneedle\n", "é".repeat(before), "é".repeat(after)));
        let shown = hits(&place, &query("needle"));
        assert_eq!(shown.len(), 2, "{before} {after}");
        assert!(shown[0].starts_with(&format!("long:2:{}:", before + 1)), "{}", &shown[0][..40]);
        assert!(shown[0].contains("needle") && shown[0].contains('…'));
        assert!(shown[0].len() <= 2_000 + "long:2:3000001:".len());
        assert_eq!(shown[1], "long:3:1:needle");
    }
}

#[test]
fn a_large_file_in_pieces_counts_its_lines_right() {
    let place = Place::build();
    let mut content = String::new();
    let mut wanted = Vec::new();
    for line in 1..=260_000 {
        if line % 40_009 == 0 {
            wanted.push(format!("log:{line}:7:12345 ERROR at the place"));
            content.push_str("12345 ERROR at the place\n");
        } else {
            content
                .push_str("a line of a log that is about eighty bytes long, as most of them are here, yes\n");
        }
    }
    assert!(content.len() > 16 * 1024 * 1024);
    place.put("log", &content);
    assert_eq!(hits(&place, &query("ERROR at the place")), wanted);
    let alone = SearchText { path: Some(text(&place.work("log"))), ..query("ERROR at the place") };
    assert_eq!(hits(&place, &alone), wanted);
    let counted = SearchText { count_all: Some(true), limit: Some(2), ..query("eighty") };
    let content = found(&place, &counted);
    assert!(content.starts_with("259994 lines in 1 files hold"), "{content}");
    assert_eq!(hits(&place, &counted).len(), 2);
}

#[test]
fn what_is_shown_is_the_front_of_all_there_is() {
    let place = Place::build();
    let mut all = Vec::new();
    for n in 0..400 {
        let name = format!("d{}/{:03}", n % 5, n);
        place.put(&name, "x\nneedle\n".repeat(n % 4));
        all.extend((0..n % 4).map(|line| format!("{name}:{}:1:needle", 2 * line + 2)));
    }
    all.sort();
    for limit in [1, 10, 199, 550] {
        for count_all in [false, true] {
            let input = SearchText { limit: Some(limit), count_all: Some(count_all), ..query("needle") };
            for _ in 0..3 {
                let shown = usize::try_from(limit).unwrap();
                assert_eq!(hits(&place, &input), all[..shown], "limit {limit}, count_all {count_all}");
            }
            let content = found(&place, &input);
            assert_eq!(content.starts_with("600 lines in 300 files"), count_all, "{content}");
            assert!(content.contains("search further down"));
        }
    }
}

#[test]
fn odd_names_are_shown_on_one_line() {
    let place = Place::build();
    place.put("a\nb", "needle\u{1b}[0m\n");
    fs::write(place.work("").join(OsStr::from_bytes(b"\xff")), "needle\n").ok();
    let shown = hits(&place, &query("needle"));
    assert!(shown[0].ends_with("/a\\nb\":1:1:needle␛[0m"), "{shown:?}");
    assert_eq!(shown.len(), if cfg!(target_os = "linux") { 2 } else { 1 });
}

#[test]
fn a_stop_ends_the_search() {
    let place = Place::build();
    place.put("a", "needle\n");
    let around = place.around();
    around.stop.raise();
    assert!(!receipt(search_text(&query("needle"), &around)).content.contains("a:1"));
}

/// The lines of `content` with `needle`, found the plain way.
fn plainly(content: &[u8], needle: &str) -> BTreeMap<u64, u64> {
    let mut lines = BTreeMap::new();
    for (number, line) in (0..).zip(content.split(|byte| *byte == b'\n')) {
        let line = String::from_utf8_lossy(line);
        if let Some(at) = line.find(needle) {
            lines.insert(number, line[..at].chars().count() as u64 + 1);
        }
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However a file is cut into pieces, they find what a plain search finds.
    #[test]
    fn pieces_together_find_what_a_plain_search_finds(
        words in proptest::collection::vec(prop_oneof![Just("ab"), Just("abc"), Just("\n"), Just("é"), Just("\r\n"), Just("xxxxxxxx")], 0..60),
        size in 1_u64..40,
    ) {
        let content: String = words.concat();
        let place = Place::build();
        let file = File::open(place.put("f", &content)).unwrap();
        let needle = Needle::of("ab", None).unwrap();
        let extent = Extent { most_hits: 1_000, most_bytes: 1_000_000, counts_all: true };
        let mut lines_before = 0;
        let mut found = BTreeMap::new();
        let mut start = 0;
        while start == 0 || start < content.len() as u64 {
            let last = start + size >= content.len() as u64;
            let span = piece::Span { start, end: if last { u64::MAX } else { start + size } };
            let mut window = piece::Window::default();
            window.open(&file, start.saturating_sub(1)).unwrap();
            let piece = piece::Search::new(&needle, extent, span).run(&file, &mut window, &|| true).unwrap();
            for hit in piece.hits {
                prop_assert_eq!(found.insert(lines_before + hit.line, hit.column), None);
            }
            lines_before += piece.lines;
            start += size;
        }
        prop_assert_eq!(found, plainly(content.as_bytes(), "ab"));
    }
}
