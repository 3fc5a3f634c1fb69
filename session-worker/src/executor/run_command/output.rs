//! A command's output, bounded while it is read: the first and the last part stay, the rest is counted.
//!
//! Invariant: a stream takes the same memory however much flows through it.

use std::io::{self, Read};

/// Kept of each end of a stream: a receipt never shows more.
const KEPT: usize = 32 * 1024;

/// The most that is read at once.
const CHUNK: usize = 128 * 1024;

/// Where the end of a stream is read to: what is older than the last part is moved out of the way only now and then.
const ROOM: usize = KEPT + 2 * CHUNK;

/// One stream's first and last bytes.
#[derive(Debug, Default)]
pub(super) struct Captured {
    head: Vec<u8>,
    /// Ends with the last bytes that came after the head; never longer than [`ROOM`].
    tail: Vec<u8>,
    total: u64,
}

impl Captured {
    /// Reads a stream to its end.
    pub(super) fn read(mut stream: impl Read) -> Self {
        let mut captured = Self::default();
        let mut room = Vec::new();
        let mut filled = 0;
        loop {
            // A stream that says little costs little.
            let wanted = (filled * 2).clamp(KEPT, ROOM);
            if room.len() < wanted {
                room.resize(wanted, 0);
            }
            if room.len() == ROOM && ROOM - filled < CHUNK {
                captured.pass(&room[..filled - KEPT]);
                room.copy_within(filled - KEPT..filled, 0);
                filled = KEPT;
            }
            let end = room.len().min(filled + CHUNK);
            match stream.read(&mut room[filled..end]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break, // the other end is gone, and with it all that was to come
            }
        }
        room.truncate(filled);
        captured.end(room);
        captured
    }

    /// Takes bytes that are not the stream's last ones.
    fn pass(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = KEPT - self.head.len();
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    /// Takes the stream's last bytes, as many as there was room for.
    fn end(&mut self, mut bytes: Vec<u8>) {
        self.total += bytes.len() as u64;
        let first = bytes.len().min(KEPT - self.head.len());
        self.head.extend(bytes.drain(..first));
        bytes.drain(..bytes.len().saturating_sub(KEPT));
        self.tail = bytes;
    }

    /// Bytes that flowed.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// What is shown within `budget` bytes of text, and how many of the stream's bytes are not.
    pub(super) fn shown(mut self, budget: usize) -> (String, u64) {
        let kept = self.head.len() + self.tail.len();
        self.head.append(&mut self.tail);
        let all = self.head;
        let whole = String::from_utf8_lossy(&all);
        if kept as u64 == self.total && whole.len() <= budget {
            return (whole.into_owned(), 0);
        }
        let (first, last) = all.split_at(all.len().min(KEPT));
        // Where both ends fit into the head's room, the head is split between them.
        let (first, last) = if last.is_empty() { first.split_at(first.len() / 2) } else { (first, last) };
        let half = budget.saturating_sub(NOTE_ROOM) / 2;
        let (start, start_bytes) = beginning(first, half);
        let (end, end_bytes) = ending(last, half);
        let cut = self.total - (start_bytes + end_bytes) as u64;
        (format!("{start}\n[… {cut} bytes are not shown …]\n{end}"), cut)
    }
}

/// What the note between the ends takes at most.
const NOTE_ROOM: usize = 80;

/// The longest beginning that is at most `room` bytes of text, and its own bytes.
fn beginning(bytes: &[u8], room: usize) -> (String, usize) {
    let mut count = bytes.len().min(room);
    // Not within a character.
    while count > 0 && bytes.get(count).is_some_and(|byte| byte & 0xC0 == 0x80) {
        count -= 1;
    }
    fitting(room, count, |count| &bytes[..count])
}

fn ending(bytes: &[u8], room: usize) -> (String, usize) {
    let mut count = bytes.len().min(room);
    while count > 0 && bytes[bytes.len() - count] & 0xC0 == 0x80 {
        count -= 1;
    }
    fitting(room, count, |count| &bytes[bytes.len() - count..])
}

/// Shortens until the text fits: a byte that is no UTF-8 takes three bytes of text.
fn fitting<'a>(room: usize, mut count: usize, part: impl Fn(usize) -> &'a [u8]) -> (String, usize) {
    loop {
        let text = String::from_utf8_lossy(part(count));
        if text.len() <= room {
            return (text.into_owned(), count);
        }
        count = count * room / text.len().max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(bytes: &[u8]) -> Captured {
        Captured::read(bytes)
    }

    #[test]
    fn short_output_is_shown_whole() {
        assert_eq!(captured(b"").shown(100), (String::new(), 0));
        assert_eq!(captured("é\n".as_bytes()).shown(100), ("é\n".into(), 0));
    }

    #[test]
    fn the_first_and_the_last_part_stay_and_every_byte_is_accounted_for() {
        for filler in ["x", "é", "€", "😀"] {
            for length in [10, KEPT, 2 * KEPT, 2 * KEPT + 1, 10 * KEPT] {
                let text = format!("BEGIN{}END", filler.repeat(length));
                let (shown, cut) = captured(text.as_bytes()).shown(2_000);
                assert!(shown.starts_with("BEGIN") && shown.ends_with("END"));
                assert!(
                    shown.len() <= 2_000 && !shown.contains('\u{FFFD}'),
                    "{} {filler} {length}",
                    shown.len()
                );
                let note = format!("\n[… {cut} bytes are not shown …]\n");
                let seen = if cut == 0 { shown.len() } else { shown.len() - note.len() };
                assert_eq!(seen as u64 + cut, text.len() as u64);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay_within_the_budget() {
        let (shown, cut) = captured(&vec![0xFF; 100_000]).shown(5_000);
        assert!(shown.len() <= 5_000 && cut > 90_000);
    }
}
