//! `Read`: a page of a text file, numbered, with the digest of the whole file (X1).
//!
//! Invariant: one pass over one descriptor in constant memory: the lines shown, the counts and the digest are of the same
//! bytes, and a file of any size is read.

mod page;
mod scan;
#[cfg(test)]
mod tests;

use std::{fmt::Write, io::Read as _, path::Path};

use protocol::{
    failure::ToolErrorCode,
    limits::RECEIPT_BYTES,
    receipt::{Facts, FileVersion},
    tool::Read,
};

use super::{
    display,
    outcome::{ToolFailure, ToolOutcome},
    paths::{self, Wanted},
    tools::Surroundings,
};
use page::Page;
use scan::{Scan, Scanned};

/// Bytes read at once: large enough that a call of the system costs nothing beside hashing, small enough for the cache.
const CHUNK: usize = 256 * 1024;

/// Room for the lines above the page, beside the path.
const HEADING: usize = 1_024;

/// Shows a page of a file and observes the whole of it.
///
/// # Errors
/// The file can't be opened or is not UTF-8, or the session ends meanwhile.
pub(crate) fn read(input: &Read, around: &Surroundings) -> Result<ToolOutcome, ToolFailure> {
    let asked = Path::new(&input.file_path);
    let opened = paths::open(asked, Wanted::File, &around.protected)?;
    let room = RECEIPT_BYTES - HEADING - (2 * asked.as_os_str().len()).min(RECEIPT_BYTES / 4);
    let mut scan = Scan::new(Page::new(input.offset.unwrap_or(1), input.limit.unwrap_or(u64::MAX), room));
    let mut chunk = vec![0; CHUNK];
    let mut file = &opened.file;
    loop {
        if around.stop.is_raised() {
            return Err(ToolFailure::new(
                ToolErrorCode::NotApplied,
                format!("reading {}: the session ends, so it was not read to its end", display::path(asked)),
            ));
        }
        let bytes = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(paths::unreadable(asked, &error)),
        };
        scan.take(&chunk[..bytes]).map_err(|not_utf8| not_utf8.failure(asked))?;
    }
    let scanned = scan.finish().map_err(|not_utf8| not_utf8.failure(asked))?;
    let facts = Facts::Observed(FileVersion {
        path: opened.path.to_string_lossy().into_owned(),
        sha256: scanned.digest,
        bytes: scanned.bytes,
    });
    let mut content = heading(asked, &opened.path, &scanned);
    content.push_str(scanned.page.text());
    Ok(ToolOutcome::done(content, facts))
}

fn heading(asked: &Path, real: &Path, scanned: &Scanned) -> String {
    let mut text = display::path(asked).into_owned();
    if asked != real && text.len() < 2_000 {
        let real = display::path(real);
        if real.len() < 2_000 {
            let _ = write!(text, " (really {real})");
        }
    }
    let Scanned { lines, bytes, digest, .. } = scanned;
    let plural = if *lines == 1 { "line" } else { "lines" };
    let _ = writeln!(text, ": {lines} {plural}, {bytes} bytes, SHA-256 {digest}");
    for note in scanned.notes() {
        let _ = writeln!(text, "[{note}]");
    }
    let page = &scanned.page;
    if *bytes == 0 {
        text.push_str("[the file is empty]\n");
    } else {
        match page.shown() {
            None => {
                let _ = writeln!(text, "[no line {} to show: the last one is line {lines}]", page.offset());
            }
            Some((first, last)) if last < *lines => {
                let _ = writeln!(
                    text,
                    "[lines {first}-{last} of {lines}; {} are left: read on with offset {}]",
                    lines - last,
                    last + 1
                );
            }
            Some((1, _)) => {}
            Some((first, last)) => {
                let _ = writeln!(text, "[lines {first}-{last} of {lines}; this is the end of the file]");
            }
        }
    }
    text.push('\n');
    text
}
