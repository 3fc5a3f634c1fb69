//! Texts that share a bounded room evenly, each saying what was cut and how to get the rest.

use crate::boundary;

/// Of a text that is cut, this much is kept of its end: tools put their totals there.
const TAIL_BYTES: usize = 512;

/// Room for the note that says what was cut.
const NOTE_BYTES: usize = 256;

/// The least share that shows anything at all beside its note.
const LEAST_BYTES: usize = NOTE_BYTES + 64;

/// A text, and how its rest can be got.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole<'a> {
    pub(super) text: &'a str,
    pub(super) rest: &'static str,
}

/// The texts within `room` bytes together. What a short one leaves goes to the longer ones.
pub(super) fn share(texts: &[Whole<'_>], room: usize) -> Vec<String> {
    let level = level(texts.iter().map(|whole| whole.text.len()).collect(), room);
    texts.iter().map(|whole| cut(*whole, level)).collect()
}

/// The largest length such that all texts, cut to it, fit the room.
fn level(mut lengths: Vec<usize>, mut room: usize) -> usize {
    lengths.sort_unstable();
    let mut left = lengths.len();
    for length in lengths {
        let even = room / left;
        if length > even {
            return even;
        }
        room -= length;
        left -= 1;
    }
    usize::MAX
}

fn cut(whole: Whole<'_>, level: usize) -> String {
    let Whole { text, rest } = whole;
    if text.len() <= level {
        return text.to_owned();
    }
    let total = text.len();
    if level < LEAST_BYTES {
        let note = format!("[{total} bytes, not shown; {rest}]");
        return note[..boundary::floor(&note, level)].to_owned();
    }
    let kept = level - NOTE_BYTES;
    let tail_from = line_start_after(text, total - TAIL_BYTES.min(kept / 4));
    let tail = &text[tail_from..];
    let head = &text[..line_end_before(text, kept - tail.len())];
    let gone = total - head.len() - tail.len();
    format!("{head}[… {gone} of {total} bytes cut here to fit the turn; {rest} …]\n{tail}")
}

/// The end of the last whole line within `most` bytes, or of the last whole character where there is none.
fn line_end_before(text: &str, most: usize) -> usize {
    let most = boundary::floor(text, most);
    match text[..most].rfind('\n') {
        // A line so long that hardly anything would be left is cut within.
        Some(at) if at + 1 >= most / 2 => at + 1,
        Some(_) | None => most,
    }
}

fn line_start_after(text: &str, least: usize) -> usize {
    let least = boundary::ceil(text, least);
    text[least..].find('\n').map_or(text.len(), |at| least + at + 1)
}

/// The first `most` bytes of a text, and whether that is all of it.
pub(super) fn head(text: &str, most: usize) -> (&str, bool) {
    if text.len() <= most { (text, true) } else { (&text[..boundary::floor(text, most)], false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(lengths: &[usize], room: usize) -> Vec<String> {
        let texts: Vec<String> = lengths.iter().map(|n| "é\n".repeat(n / 3 + 1)).collect();
        let wholes: Vec<Whole<'_>> = texts.iter().map(|text| Whole { text, rest: "ask again" }).collect();
        share(&wholes, room)
    }

    #[test]
    fn what_fits_is_whole_and_what_does_not_shares_evenly() {
        let texts = shared(&[30, 300_000, 300_000], 80 * 1024);
        assert_eq!(texts[0].len(), 33);
        assert!(texts[1].len() > 30_000 && texts[1].len() == texts[2].len(), "{}", texts[1].len());
        assert!(texts[1].contains("ask again") && texts[1].contains("of 300003 bytes cut"));
    }

    proptest::proptest! {
        #[test]
        fn the_room_is_never_exceeded(lengths in proptest::collection::vec(0_usize..200_000, 1..33), room in 0_usize..100_000) {
            let total: usize = shared(&lengths, room).iter().map(String::len).sum();
            proptest::prop_assert!(total <= room.max(lengths.iter().map(|n| n / 3 * 3 + 3).sum::<usize>().min(room)), "{total} > {room}");
        }
    }
}
