//! The lines around a hit.

use std::{fs::File, os::unix::fs::FileExt};

use super::piece::{Hit, preview};

/// Bytes looked at on each side of a hit: 20 lines of usual length fit many times.
const REACH: u64 = 64 * 1024;

/// What stands for a line that is not UTF-8.
const NOT_UTF8: &str = "[this line is not UTF-8]";

/// Up to `count` lines before and after a hit, in the order of the file.
pub(super) fn around(file: &File, hit: &Hit, count: usize) -> (Vec<String>, Vec<String>) {
    let Some((start, end)) = hit.at else { return (Vec::new(), Vec::new()) };
    let from = start.saturating_sub(REACH);
    let before = read(file, from, start - from);
    // Without the newline that ends the last of them.
    let before = before.strip_suffix(b"\n").map_or_else(Vec::new, |lines| {
        let mut lines: Vec<String> = lines.rsplit(|byte| *byte == b'\n').take(count).map(shown).collect();
        lines.reverse();
        lines
    });
    let after = read(file, end + 1, REACH);
    let ends = after.last() == Some(&b'\n');
    let mut lines: Vec<String> = after.split(|byte| *byte == b'\n').take(count + 1).map(shown).collect();
    if ends || lines.len() > count || after.is_empty() {
        lines.pop();
    }
    (before, lines)
}

fn shown(line: &[u8]) -> String {
    preview(line, (0, 0)).unwrap_or_else(|| NOT_UTF8.to_owned())
}

fn read(file: &File, from: u64, most: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(most.min(REACH)).unwrap_or_default()];
    let mut filled = 0;
    // What can't be read is context that is not shown.
    while let Ok(more) = file.read_at(&mut bytes[filled..], from + filled as u64)
        && more > 0
    {
        filled += more;
    }
    bytes.truncate(filled);
    bytes
}
