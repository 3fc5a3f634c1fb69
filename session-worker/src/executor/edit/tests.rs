//! What `edit` promises: by example, against a slow model, and on hostile sizes.

use proptest::prelude::*;

use super::nearest::Cause;
use super::*;

fn edited(before: &str, old: &str, new: &str) -> String {
    String::from_utf8(edit(before.as_bytes(), old, new, ReplaceMode::Only).unwrap().content).unwrap()
}

fn refused(before: &str, old: &str, new: &str) -> EditError {
    edit(before.as_bytes(), old, new, ReplaceMode::Only).unwrap_err()
}

#[test]
fn each_byte_outside_the_match_stays() {
    for (name, before, old, new, after) in [
        ("mixed endings", "a\r\nb\nc\r\nd", "b", "B", "a\r\nB\nc\r\nd"),
        ("byte order mark", "\u{feff}x = 1\n", "x = 1", "x = 2", "\u{feff}x = 2\n"),
        ("no final newline", "one\ntwo", "two", "2", "one\n2"),
        ("control characters", "a\0b\x1b[0m\x07c\x0c", "b", "B", "a\0B\x1b[0m\x07c\x0c"),
        ("decomposed characters", "e\u{301}t\u{e9} x", "x", "y", "e\u{301}t\u{e9} y"),
        ("lone carriage returns", "10%\r20%\rdone\n", "done", "end", "10%\r20%\rend\n"),
        ("to nothing", "abc", "b", "", "ac"),
        ("to nothing at all", "abc", "abc", "", ""),
    ] {
        assert_eq!(edited(before, old, new), after, "{name}");
    }
}

#[test]
fn an_old_text_with_line_feeds_matches_any_ending_and_the_new_text_takes_the_places() {
    for (name, before, old, new, after) in [
        ("crlf", "a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"),
        ("starts with an ending", "a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"),
        ("ends with an ending", "a\r\nb\r\n", "a\n", "", "b\r\n"),
        ("one line becomes two", "a\r\nb\r\n", "a", "a\n1", "a\r\n1\r\nb\r\n"),
        ("on the last line", "a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
        ("lf in a mixed file", "a\r\nb\nc\nd\r\n", "b\nc", "b\nx\nc", "a\r\nb\nx\nc\nd\r\n"),
        ("shared lines keep theirs", "a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\r\n"),
        ("an added line takes its neighbour's", "a\r\nb\nc", "a\nb\nc", "a\nb\nx\nc", "a\r\nb\nx\nc"),
        ("spelled out endings are taken to the letter", "a\r\nb\n", "a\r\nb", "a\nb", "a\nb\n"),
        ("a new text that spells them out", "a\nb\n", "a\nb", "a\r\nb", "a\r\nb\n"),
        ("only endings", "a\r\n\r\n\r\nb", "\n\n\n", "\n\n", "a\r\n\r\nb"),
    ] {
        assert_eq!(edited(before, old, new), after, "{name}");
    }
}

#[test]
fn a_file_that_is_not_utf8_is_refused_with_the_place() {
    let refusal = edit(b"caf\xe9 = 1\n", "1", "2", ReplaceMode::Only).unwrap_err();
    assert_eq!(refusal, EditError::NotUtf8 { offset: 3 });
    assert!(refusal.to_string().contains("byte 3"));
}

#[test]
fn an_edit_that_says_nothing_is_refused() {
    assert_eq!(refused("a", "", "b"), EditError::EmptyOld);
    assert_eq!(refused("a", "", "b").code(), ToolErrorCode::InvalidArgument);
    assert_eq!(refused("", "", "b"), EditError::EmptyOld);
    assert_eq!(refused("a", "a", "a"), EditError::Unchanged);
    assert_eq!(refused("a\r\nb", "a\nb", "a\r\nb"), EditError::Unchanged);
}

#[test]
fn several_places_are_counted_and_listed() {
    let refusal = refused("x\ny\nx\r\nx", "x", "z");
    assert_eq!(refusal, EditError::Ambiguous { count: 3, lines: vec![1, 3, 4] });
    assert!(refusal.to_string().contains("3 places (lines 1, 3, 4)"));
    assert_eq!(refused("aaa", "aa", "b"), EditError::Ambiguous { count: 2, lines: vec![1, 1] });
    assert_eq!(
        refused("a\r\na\r\na", "a\na", "b"),
        EditError::Ambiguous { count: 2, lines: vec![1, 2] },
        "an overlap that starts behind a CRLF"
    );
    assert_eq!(
        refused("a\nb\r\na\r\nb", "a\nb", "c"),
        EditError::Ambiguous { count: 2, lines: vec![1, 3] },
        "the endings do not choose the place"
    );
}

#[test]
fn every_place_is_replaced_when_asked() {
    let edited = edit(b"a\r\nb\na\nb\r\n", "a\nb", "a\n-\nb", ReplaceMode::Every).unwrap();
    assert_eq!(edited.content, b"a\r\n-\r\nb\na\n-\nb\r\n");
    assert_eq!((edited.replaced, edited.first_line), (2, 1));
    assert_eq!(edit(b"aaaa", "aa", "b", ReplaceMode::Every).unwrap().content, b"bb");
}

#[test]
fn a_missing_text_is_explained() {
    for (name, before, old, line, cause) in [
        ("tabs for spaces", "x\n\tif a {\n\t\tb\n", "    if a {\n        b", 2, Cause::Whitespace),
        ("no-break space", "x\na\u{a0}b\n", "a b", 2, Cause::Whitespace),
        ("case", "x\ny\nLet Me = 1\n", "let me = 1", 3, Cause::Case),
        ("decomposed", "cafe\u{301}\n", "caf\u{e9}", 1, Cause::UnicodeForm),
        ("curly quotes", "a\nsay \u{201c}hi\u{201d}\n", "say \"hi\"", 2, Cause::UnicodeForm),
        ("crlf spelled out", "a\nb\nc\n", "b\r\nc", 2, Cause::LineEndings),
        ("line numbers", "a\nlet b = 1;\nc\n", "     2\tlet b = 1;\n     3\tc", 2, Cause::LineNumbers),
        ("other words", "a\nfn compute_total(x: u32)\n", "fn compute_sum(x: u32)", 2, Cause::Words),
    ] {
        let EditError::NoMatch(no_match) = refused(before, old, "new") else {
            panic!("{name}: expected no match");
        };
        let nearest = no_match.nearest.first().unwrap_or_else(|| panic!("{name}: nothing near"));
        assert_eq!((nearest.number, nearest.cause), (line, cause), "{name}");
        let text = no_match.to_string();
        assert!(text.contains("0 times") && text.contains(&format!("line {line}")), "{name}: {text}");
    }
    let EditError::NoMatch(no_match) = refused("abc\n", "zzzzzzzz", "new") else { panic!() };
    assert_eq!(no_match.nearest, Vec::new());
}

#[test]
fn the_place_that_differs_least_is_shown_first() {
    let before = "LET ME  = 1\nx\nlet  me = 1\nLet me = 1\n";
    let EditError::NoMatch(no_match) = refused(before, "let me = 1", "new") else { panic!() };
    let shown: Vec<_> = no_match.nearest.iter().map(|line| (line.number, line.cause)).collect();
    assert_eq!(shown, [(3, Cause::Whitespace)]);
    let EditError::NoMatch(no_match) = refused(before, "let me =  1", "new") else { panic!() };
    assert_eq!(no_match.nearest[0].number, 3, "{no_match}");
}

#[test]
fn a_missing_text_is_explained_also_far_down_in_a_large_text() {
    for filler in
        ["plain words of a line\n", "W\u{f6}rter einer Zeile, \u{5b57}\u{5b57}\n", "\n", "cafe\u{301} "]
    {
        let text = filler.repeat(5_000_000 / filler.len());
        let before = format!("{text}\n\tLet Value = other;\n");
        let line = 1 + before.trim_end().matches('\n').count();
        let EditError::NoMatch(no_match) = refused(&before, "  let value = other;", "new") else { panic!() };
        let found = no_match.nearest.first().unwrap_or_else(|| panic!("{filler:?}: nothing near"));
        assert_eq!((found.number, found.cause), (line, Cause::Several), "{filler:?}");
    }
}

#[test]
fn large_and_hostile_texts_are_edited_in_linear_time() {
    let long_line = "x".repeat(1 << 20);
    let before = format!("{long_line}needle{long_line}\r\n");
    assert_eq!(edited(&before, "needle", "pin"), before.replace("needle", "pin"));

    let ones_line = "a".repeat(1 << 17) + "\r\n";
    let half = "a".repeat(1 << 16);
    assert!(matches!(refused(&ones_line, &format!("{half}\n{half}"), "b"), EditError::NoMatch(_)));
    let all = edit(ones_line.as_bytes(), "a", "b\n", ReplaceMode::Every).unwrap();
    assert_eq!((all.replaced, all.content.len()), (1 << 17, 3 * (1 << 17) + 2));

    let ones = "a".repeat(1 << 17);
    let bomb = edit(ones.as_bytes(), "a", &ones, ReplaceMode::Every).unwrap_err();
    assert_eq!(bomb, EditError::TooLarge { bytes: 1 << 34 });
}

/// Few characters, so that random texts do match each other.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            4 => Just("a"), 4 => Just("b"), 2 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r"), 1 => Just("é"),
            1 => Just("e\u{301}"), 1 => Just("\u{feff}"), 1 => Just("𝄞"), 1 => Just("\0"), 1 => Just(" ")
        ],
        0..60,
    )
    .prop_map(|parts| parts.concat())
}

fn short_text() -> impl Strategy<Value = String> {
    text().prop_map(|text| text.chars().take(3).collect())
}

/// The obvious slow model: every place where `old`, with each bare line feed standing for either ending,
/// matches, leftmost first.
fn model_places(text: &str, old: &str) -> Vec<(usize, usize)> {
    let (bytes, pattern) = (text.as_bytes(), old.as_bytes());
    let any = old.contains('\n') && !old.contains('\r');
    let match_at = |start: usize| -> Option<usize> {
        let mut at = start;
        for &wanted in pattern {
            if any && wanted == b'\n' && bytes[at..].starts_with(b"\r\n") {
                at += 2;
            } else if bytes.get(at) == Some(&wanted) {
                at += 1;
            } else {
                return None;
            }
        }
        Some(at)
    };
    let mut places = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        match match_at(start) {
            Some(end) => {
                places.push((start, end));
                start = end;
            }
            None => start += 1,
        }
    }
    places
}

/// How many places there are, also overlapping ones. No place starts within a CRLF that is one ending.
fn model_count(text: &str, old: &str) -> usize {
    let bytes = text.as_bytes();
    let within_ending = |at: usize| {
        old.starts_with('\n') && !old.contains('\r') && at > 0 && bytes[at] == b'\n' && bytes[at - 1] == b'\r'
    };
    (0..bytes.len())
        .filter(|&at| text.is_char_boundary(at) && !within_ending(at))
        .filter(|&at| model_places(&text[at..], old).first().is_some_and(|&(start, _)| start == 0))
        .count()
}

fn without_returns(text: &str) -> String {
    text.replace("\r\n", "\n")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_is_the_model(before in text(), old in short_text(), new in short_text(), every: bool) {
        let mode = if every { ReplaceMode::Every } else { ReplaceMode::Only };
        let places = if old.is_empty() { Vec::new() } else { model_places(&before, &old) };
        match edit(before.as_bytes(), &old, &new, mode) {
            Ok(edited) => {
                prop_assert_eq!(edited.replaced, places.len());
                prop_assert!(every || model_count(&before, &old) == 1);
                // Outside the places: the same bytes. Inside: the new text, but for endings.
                let mut rest: &[u8] = &edited.content;
                let mut from = 0;
                for (index, &(start, end)) in places.iter().enumerate() {
                    let kept = &before.as_bytes()[from..start];
                    prop_assert!(rest.starts_with(kept));
                    rest = &rest[kept.len()..];
                    let next = places.get(index + 1).map_or(before.len(), |&(next, _)| next);
                    let tail = before.len() - end;
                    let put = if index + 1 == places.len() { rest.len() - tail } else {
                        put_len(rest, &new, &before[end..next])
                    };
                    let put_text = String::from_utf8(rest[..put].to_vec()).unwrap();
                    prop_assert_eq!(without_returns(&put_text), without_returns(&new));
                    rest = &rest[put..];
                    from = end;
                }
                prop_assert_eq!(rest, &before.as_bytes()[from..]);
            }
            Err(EditError::EmptyOld) => prop_assert!(old.is_empty()),
            Err(EditError::NoMatch(_)) => prop_assert!(places.is_empty()),
            Err(EditError::Ambiguous { count, .. }) => {
                prop_assert!(!every && count >= 2 && model_count(&before, &old) >= count);
            }
            Err(EditError::Unchanged) => prop_assert!(without_returns(&old) == without_returns(&new)),
            Err(other) => prop_assert!(false, "unexpected {other:?}"),
        }
    }

    #[test]
    fn random_bytes_are_edited_or_refused(before in prop::collection::vec(any::<u8>(), 0..200), old: String, new: String) {
        let _ = edit(&before, &old, &new, ReplaceMode::Every).map_err(|e| e.to_string());
    }

    #[test]
    fn a_text_with_one_kind_of_ending_keeps_it(lines in prop::collection::vec("[ab]{0,3}", 1..8), new in prop::collection::vec("[ab]{0,3}", 1..4)) {
        let before = lines.join("\r\n");
        let old = lines[..lines.len().min(2)].join("\n");
        if let Ok(edited) = edit(before.as_bytes(), &old, &new.join("\n"), ReplaceMode::Every)
            && before.contains('\n')
        {
            let after = String::from_utf8(edited.content).unwrap();
            prop_assert!(!without_returns(&after).contains('\r'));
            prop_assert_eq!(after.matches('\n').count(), after.matches("\r\n").count());
        }
    }
}

/// How many bytes of `rest` the new text takes: it is followed by `kept`.
fn put_len(rest: &[u8], new: &str, kept: &str) -> usize {
    (0..=rest.len())
        .find(|&len| {
            std::str::from_utf8(&rest[..len]).is_ok_and(|put| without_returns(put) == without_returns(new))
                && rest[len..].starts_with(kept.as_bytes())
        })
        .unwrap()
}
