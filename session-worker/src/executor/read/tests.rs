use std::fs;

use proptest::prelude::*;
use protocol::{digest::Digest, receipt::Receipt};

use super::*;
use crate::executor::fixture::{Place, code, receipt, text};

fn page(place: &Place, path: &Path, offset: Option<u64>, limit: Option<u64>) -> Receipt {
    receipt(read(&Read { file_path: text(path), offset, limit }, &place.around()))
}

fn whole(place: &Place, content: &[u8]) -> String {
    let path = place.put("file", content);
    let receipt = page(place, &path, None, None);
    let digest = Digest::of(content);
    assert!(receipt.content.contains(&digest.to_string()));
    let version = FileVersion { path: text(&path), sha256: digest, bytes: content.len() as u64 };
    assert_eq!(receipt.facts, Facts::Observed(version));
    receipt.content
}

/// The lines below the heading.
fn lines_of(content: &str) -> &str {
    content.split_once("\n\n").unwrap().1
}

#[test]
fn lines_are_numbered_and_counted() {
    let place = Place::build();
    let shown = whole(&place, "one\n\ttwo\n\nvier é\n".as_bytes());
    assert!(shown.contains("file: 4 lines, 18 bytes, SHA-256 "), "{shown}");
    assert_eq!(lines_of(&shown), "1\tone\n2\t\ttwo\n3\t\n4\tvier é\n");
    assert!(!shown.contains('['), "nothing is left and nothing is odd: {shown}");
}

#[test]
fn what_is_odd_about_a_file_is_said() {
    let place = Place::build();
    for (content, said, lines) in [
        (&b""[..], "the file is empty", ""),
        (b"one", "no newline at the end", "1\tone\n"),
        (b"\n", "1 line, 1 bytes", "1\t\n"),
        (b"a\r\nb\r\n", "lines end in CRLF", "1\ta\n2\tb\n"),
        (b"a\r\nb\n", "mixed line endings: 1 CRLF, 1 LF", "1\ta\n2\tb\n"),
        (b"a\rb\n", "1 control characters", "1\ta␍b\n"),
        (b"\xef\xbb\xbfa\n", "byte order mark", "1\ta\n"),
        (b"\x1b[31mred\n", "control characters are shown as pictures", "1\t␛[31mred\n"),
        (b"a\0b\n", "control characters", "1\ta␀b\n"),
    ] {
        let shown = whole(&place, content);
        assert!(shown.contains(said), "{said}: {shown}");
        assert_eq!(lines_of(&shown), lines);
    }
}

#[test]
fn a_page_says_what_is_left_and_the_pages_make_the_file() {
    let place = Place::build();
    let line = "0123456789 ".repeat(9);
    let content: String = (1..=3_000).map(|n| format!("{n} {line}\n")).collect();
    let path = place.put("big.txt", &content);
    let mut offset = 1;
    let mut together = String::new();
    loop {
        let shown = page(&place, &path, Some(offset), None).content;
        assert!(shown.len() <= RECEIPT_BYTES && shown.contains("3000 lines"));
        for numbered in lines_of(&shown).lines() {
            let (number, text) = numbered.split_once('\t').unwrap();
            assert_eq!(number.parse::<u64>().unwrap(), offset);
            together.push_str(text);
            together.push('\n');
            offset += 1;
        }
        let left = shown.contains(&format!("read on with offset {offset}]"));
        assert_eq!(left, offset <= 3_000);
        if !left {
            break;
        }
        assert!(shown.len() > RECEIPT_BYTES / 2);
    }
    assert!(together == content);
    let two = page(&place, &path, Some(10), Some(2)).content;
    assert!(lines_of(&two).starts_with("10\t10 ") && lines_of(&two).lines().count() == 2);
    assert!(two.contains("read on with offset 12"));
    let beyond = page(&place, &path, Some(3_001), None).content;
    assert!(beyond.contains("the last one is line 3000") && lines_of(&beyond).is_empty());
    let end = page(&place, &path, Some(3_000), Some(u64::MAX)).content;
    assert!(end.contains("this is the end of the file"));
}

#[test]
fn a_very_long_line_is_cut_visibly() {
    let place = Place::build();
    for filler in ["x", "é", "\u{1}", "€"] {
        let long = filler.repeat(300_000);
        let shown = whole(&place, format!("{long}\nend\n").as_bytes());
        assert!(shown.len() <= RECEIPT_BYTES && shown.contains("more bytes of this line]"), "{filler:?}");
        assert!(shown.contains("2 lines"));
        let shown = whole(&place, format!("start\n{long}\nend\n").as_bytes());
        assert!(shown.len() <= RECEIPT_BYTES && lines_of(&shown).ends_with("3\tend\n"), "{filler:?}");
    }
}

#[test]
fn what_is_not_utf8_is_refused_wherever_it_stands() {
    let place = Place::build();
    let mut late = vec![b'a'; 3 * CHUNK];
    late[2 * CHUNK..].fill(b'\n');
    late.push(0xe9);
    for (content, said) in [
        (b"caf\xe9\n".to_vec(), "offset 3, in line 1"),
        (b"a\nb\xc3".to_vec(), "offset 3, in line 2"),
        (b"\xff\xfea\0".to_vec(), "UTF-16"),
        (b"\x7fELF\0\xff".to_vec(), "binary data"),
        (late, &format!("offset {}", 3 * CHUNK)),
    ] {
        let path = place.put("bad", &content);
        let outcome = read(&Read { file_path: text(&path), offset: None, limit: Some(1) }, &place.around());
        assert_eq!(code(&outcome), Some(ToolErrorCode::NotUtf8));
        let failure = outcome.unwrap_err();
        assert!(failure.message.contains(said) && failure.message.contains("UTF-8"), "{failure}");
    }
}

#[test]
fn characters_and_endings_across_chunks_are_whole() {
    let place = Place::build();
    for shift in 0..5 {
        let mut content = "y".repeat(CHUNK - 3 + shift);
        content.push_str("😀\r\nend");
        let path = place.put("file", &content);
        let shown = page(&place, &path, Some(2), None).content;
        assert!(shown.contains("2 lines") && shown.contains("lines end in CRLF"), "{shift}: {shown}");
        assert_eq!(lines_of(&shown), "2\tend\n");
    }
}

#[test]
fn a_link_is_said_to_be_one_and_a_stop_ends_the_work() {
    let place = Place::build();
    let file = place.put("a", "x\n");
    std::os::unix::fs::symlink(&file, place.work("link")).unwrap();
    let shown = page(&place, &place.work("link"), None, None).content;
    assert!(shown.contains(&format!("link (really {})", text(&file))), "{shown}");
    let around = place.around();
    around.stop.raise();
    let outcome = read(&Read { file_path: text(&file), offset: None, limit: None }, &around);
    assert!(outcome.is_err());
    fs::remove_file(place.work("link")).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any bytes: never a panic, never over the limit, and accepted exactly where they are UTF-8.
    #[test]
    fn any_bytes_are_shown_or_refused(
        bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(0xc3), Just(0xa9), any::<u8>()], 0..200),
        offset in 1_u64..20,
    ) {
        let place = Place::build();
        let path = place.put("file", &bytes);
        let outcome = read(&Read { file_path: text(&path), offset: Some(offset), limit: None }, &place.around());
        prop_assert_eq!(outcome.is_ok(), std::str::from_utf8(&bytes).is_ok());
        if let Ok(outcome) = outcome {
            prop_assert!(receipt(Ok(outcome)).content.len() <= RECEIPT_BYTES);
        }
    }
}
