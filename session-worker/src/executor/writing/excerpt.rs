//! A short unified diff of a change, for the model to check what it did.
//!
//! Invariant: bounded in work and in size, whatever the texts are: only the part between the first and the last changed
//! byte is compared, and only where it is small.

use std::{fmt::Write, ops::Range, time::Duration};

use similar::{ChangeTag, DiffOp, TextDiff};

use crate::executor::display;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// The largest part, before or after, that is compared line by line.
const COMPARED_BYTES: usize = 64 * 1024;

/// How long a comparison may take before it is coarse.
const COMPARING: Duration = Duration::from_millis(20);

/// The longest excerpt.
const EXCERPT_BYTES: usize = 4 * 1024;

/// The longest line in it.
const LINE_BYTES: usize = 240;

/// The excerpt; empty where the texts are no UTF-8.
pub(super) fn of(before: &[u8], after: &[u8]) -> String {
    let (Ok(old), Ok(new)) = (std::str::from_utf8(before), std::str::from_utf8(after)) else {
        return String::new();
    };
    let start = common_start(old, new);
    let (old_end, new_end) = common_end(old, new, start);
    let first = memchr::memchr_iter(b'\n', &before[..start]).count();
    if old_end - start > COMPARED_BYTES || new_end - start > COMPARED_BYTES {
        let [old, new] = [&before[start..old_end], &after[start..new_end]]
            .map(|part| memchr::memchr_iter(b'\n', part).count() + 1);
        return format!("[{old} lines from line {} on became {new}: too much for an excerpt]\n", first + 1);
    }
    let diff =
        TextDiff::configure().timeout(COMPARING).diff_lines(&old[start..old_end], &new[start..new_end]);
    let mut text = String::new();
    for hunk in diff.grouped_ops(CONTEXT) {
        let (Some(head), Some(tail)) = (hunk.first(), hunk.last()) else { continue };
        let (removed, added) =
            (span(head.old_range(), tail.old_range()), span(head.new_range(), tail.new_range()));
        let _ = writeln!(text, "@@ -{} +{} @@", shown(first, &removed), shown(first, &added));
        if !hunk.iter().all(|op| lines(&mut text, &diff, op)) {
            text.push_str("[the rest of the change is left out]\n");
            break;
        }
    }
    text
}

fn span(first: Range<usize>, last: Range<usize>) -> Range<usize> {
    first.start..last.end
}

fn shown(first: usize, range: &Range<usize>) -> String {
    // An empty range is named by the line before it.
    let start = first + range.start + usize::from(!range.is_empty());
    format!("{start},{}", range.len())
}

/// False where there is no room for more.
fn lines(text: &mut String, diff: &TextDiff<'_, '_, str>, op: &DiffOp) -> bool {
    for change in diff.iter_changes(op) {
        if text.len() > EXCERPT_BYTES - LINE_BYTES {
            return false;
        }
        text.push(match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        });
        let line = change.value();
        let (line, ending) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, "\n\\ No newline at the end\n"),
        };
        let start = display::start(line, LINE_BYTES - 32);
        display::push_visible(text, start);
        if start.len() < line.len() {
            text.push('…');
        }
        text.push_str(ending);
    }
    true
}

/// Bytes that are compared at once: texts are megabytes, and a change is mostly a line.
const PIECE: usize = 4 * 1024;

fn is_equal<T: PartialEq + ?Sized>((one, other): &(&T, &T)) -> bool {
    one == other
}

/// Where the line begins that is [`CONTEXT`] lines before the first difference.
fn common_start(old: &str, new: &str) -> usize {
    let [old_bytes, new_bytes] = [old.as_bytes(), new.as_bytes()];
    let whole =
        PIECE * old_bytes.chunks_exact(PIECE).zip(new_bytes.chunks_exact(PIECE)).take_while(is_equal).count();
    let rest = old_bytes[whole..].iter().zip(&new_bytes[whole..]);
    let same = whole + rest.take_while(is_equal).count();
    let mut start = same;
    for _ in 0..=CONTEXT {
        match memchr::memrchr(b'\n', &old.as_bytes()[..start]) {
            Some(end_of_line) => start = end_of_line,
            None => return 0,
        }
    }
    start + 1
}

/// Where the lines end that are [`CONTEXT`] lines after the last difference.
fn common_end(old: &str, new: &str, start: usize) -> (usize, usize) {
    let [old, new] = [old.as_bytes(), new.as_bytes()];
    let [old_rest, new_rest] = [&old[start..], &new[start..]];
    let pieces = old_rest.rchunks_exact(PIECE).zip(new_rest.rchunks_exact(PIECE));
    let whole = PIECE * pieces.take_while(is_equal).count();
    let tails = old_rest.iter().rev().zip(new_rest.iter().rev()).skip(whole);
    let same = whole + tails.take_while(is_equal).count();
    let tail = &old[old.len() - same..];
    // The rest of the changed line, and the lines of context after it.
    let kept = memchr::memchr_iter(b'\n', tail).nth(CONTEXT).map_or(tail.len(), |at| at + 1);
    (old.len() - same + kept, new.len() - same + kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_lines_and_their_numbers() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 10\n", "line ten\nand a half\r\n");
        let expected = "@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+line ten\n+and a half␍\n line 11\n line 12\n line 13\n";
        assert_eq!(of(old.as_bytes(), new.as_bytes()), expected);
        assert_eq!(
            of(b"a\nb", b"a\nc"),
            "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at the end\n+c\n\\ No newline at the end\n"
        );
        assert_eq!(of(b"", b"a\n"), "@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(of(b"a\n", b""), "@@ -1,1 +0,0 @@\n-a\n");
        assert_eq!(of("ä\n".as_bytes(), "ö\n".as_bytes()), "@@ -1,1 +1,1 @@\n-ä\n+ö\n");
    }

    #[test]
    fn a_change_is_found_wherever_it_is_in_a_large_text() {
        let lines: Vec<String> = (0..5_000).map(|n| format!("line {n}\n")).collect();
        for changed in [0, 1, 1_700, 4_998, 4_999] {
            let mut after = lines.clone();
            after[changed] = "another\n".to_owned();
            let text = of(lines.concat().as_bytes(), after.concat().as_bytes());
            assert!(text.contains(&format!("-line {changed}\n+another\n")), "{changed}: {text}");
            assert!(text.lines().count() <= 9, "{text}");
        }
    }

    #[test]
    fn an_excerpt_is_bounded() {
        let long = "x".repeat(1_000_000);
        for (old, new) in [
            (long.clone(), format!("{long}y")),
            ("a\n".repeat(30_000), "b\n".repeat(30_000)),
            ("a\n".repeat(300_000), "b\n".repeat(300_000)),
            (String::new(), "é".repeat(5_000)),
        ] {
            let text = of(old.as_bytes(), new.as_bytes());
            assert!(!text.is_empty() && text.len() <= EXCERPT_BYTES + 128, "{}", text.len());
        }
        assert_eq!(of(b"\xff", b"a"), "");
    }

    #[test]
    fn distant_changes_are_hunks_of_their_own() {
        let old: String = (1..=40).map(|n| format!("{n}\n")).collect();
        let new = old.replace("5\n6", "5\nx\n6").replace("35\n", "");
        let text = of(old.as_bytes(), new.as_bytes());
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
        assert!(text.contains("@@ -3,6 +3,7 @@") && text.contains("\n-35\n"), "{text}");
    }
}
