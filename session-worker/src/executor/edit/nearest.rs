//! Why an old text was not found: what is nearest to it, and in what it differs.
//!
//! Invariant: work and answer are bounded, whatever the texts are.

use std::fmt;

use memchr::memmem;
use unicode_normalization::UnicodeNormalization;

/// How much of the text is looked at: 8 MiB. ASCII is compared at hundreds of MiB a second.
const MAX_SEARCHED_BYTES: usize = 8 * 1024 * 1024;
/// How much of it, in lines that are not ASCII, is compared by its Unicode form too, at some 20 MiB a second.
const MAX_DECOMPOSED_BYTES: usize = 512 * 1024;
/// How much of the places that match once everything is folded is looked at for what exactly differs there.
const MAX_JUDGED_BYTES: usize = 512 * 1024;
/// How many near lines are shown.
const MAX_LINES: usize = 3;
/// How much of a line is shown, in characters.
const MAX_SHOWN_CHARS: usize = 160;
/// How much of a line is compared, in bytes.
const MAX_COMPARED_BYTES: usize = 512;
/// From which likeness on (in hundredths) a line is worth showing.
const MIN_LIKENESS: usize = 50;

/// In what the old text differs from a place that would match otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// In line endings that the old text spells out.
    LineEndings,
    /// In spaces, tabs or their like.
    Whitespace,
    /// In upper and lower case.
    Case,
    /// In how characters are composed, or in look-alikes (quotes, dashes, wide forms).
    UnicodeForm,
    /// In several of these at once.
    Several,
    /// It carries the line numbers that a listing puts before each line.
    LineNumbers,
    /// In its words.
    Words,
}

/// A line that resembles the old text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NearLine {
    /// Its number, from 1.
    pub(crate) number: usize,
    /// Its text, shortened.
    pub(crate) text: String,
    /// In what it differs.
    pub(crate) cause: Cause,
}

/// That the old text is nowhere, and what is near it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoMatch {
    /// The nearest lines, best first; may be empty.
    pub(crate) nearest: Vec<NearLine>,
    /// Whether the whole old text would match there but for the cause, or only its longest line is alike.
    pub(crate) whole: bool,
}

/// Explains why `old`, which does not match, is not found in `text`.
pub(super) fn explain(text: &str, old: &str) -> NoMatch {
    let mut end = text.len().min(MAX_SEARCHED_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    for nearest in [but_for_endings(text, old), but_for_looks(text, old)] {
        if !nearest.is_empty() {
            return NoMatch { nearest, whole: true };
        }
    }
    if let Some(bare) = without_line_numbers(old) {
        let nearest: Vec<NearLine> = but_for_endings(text, &bare)
            .into_iter()
            .map(|line| NearLine { cause: Cause::LineNumbers, ..line })
            .collect();
        if !nearest.is_empty() {
            return NoMatch { nearest, whole: true };
        }
    }
    NoMatch { nearest: alike_lines(text, old), whole: false }
}

/// Where the old text matches once every line ends with a line feed alone.
fn but_for_endings(text: &str, old: &str) -> Vec<NearLine> {
    let (text_lf, old_lf) = (fold(text, Cause::LineEndings), fold(old, Cause::LineEndings));
    if old_lf.trim().is_empty() {
        return Vec::new();
    }
    let places = Places::of(&text_lf, &old_lf).take(MAX_LINES);
    let lead = blank_lines_before(old);
    let mut lines = Lines::of(text);
    places.map(|(first, _)| near(first + lead, lines.line(first + lead), Cause::LineEndings)).collect()
}

/// Where the old text matches once neither blanks nor case nor Unicode form count. A place that differs in one of them alone
/// comes before one that differs in several.
fn but_for_looks(text: &str, old: &str) -> Vec<NearLine> {
    let folded_old = fold(old, Cause::Several);
    if folded_old.trim().is_empty() {
        return Vec::new();
    }
    let folded = fold_bounded(text);
    let narrower =
        [Cause::Whitespace, Cause::Case, Cause::UnicodeForm].map(|cause| (cause, fold(old, cause)));
    let lead = blank_lines_before(old);
    let (mut lines, mut judged) = (Lines::of(text), 0);
    let mut found: [Vec<NearLine>; 4] = Default::default();
    for (first, last) in Places::of(&folded, &folded_old) {
        let place = lines.span(first, last);
        judged += place.len();
        if judged > MAX_JUDGED_BYTES && found.iter().any(|lines| !lines.is_empty()) {
            break;
        }
        let judgeable = judged <= MAX_JUDGED_BYTES;
        let narrow = narrower.iter().position(|(cause, old)| judgeable && fold(place, *cause).contains(old));
        let cause = narrow.map_or(Cause::Several, |at| narrower[at].0);
        let shown = place.split('\n').nth(lead).unwrap_or_default();
        found[narrow.unwrap_or(narrower.len())].push(near(first + lead, shown, cause));
        if found[0].len() == MAX_LINES {
            break;
        }
    }
    let mut best = found.into_iter().find(|lines| !lines.is_empty()).unwrap_or_default();
    best.truncate(MAX_LINES);
    best
}

fn near(number: usize, line: &str, cause: Cause) -> NearLine {
    NearLine { number, text: shown(line), cause }
}

/// An old text may start with an ending: the first line that says something is shown.
fn blank_lines_before(old: &str) -> usize {
    old.split('\n').take_while(|line| line.trim().is_empty()).count()
}

/// The first and the last line, from 1, of each place where one text stands in another.
struct Places<'a, F> {
    text: &'a str,
    starts: F,
    spanned: usize,
    line: usize,
    counted: usize,
}

impl<'a> Places<'a, memmem::FindIter<'a, 'a>> {
    fn of(text: &'a str, wanted: &'a str) -> Self {
        let starts = memmem::find_iter(text.as_bytes(), wanted.as_bytes());
        let spanned = memchr::memchr_iter(b'\n', wanted.as_bytes()).count();
        Self { text, starts, spanned, line: 1, counted: 0 }
    }
}

impl<F: Iterator<Item = usize>> Iterator for Places<'_, F> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let start = self.starts.next()?;
        self.line += memchr::memchr_iter(b'\n', &self.text.as_bytes()[self.counted..start]).count();
        self.counted = start;
        Some((self.line, self.line + self.spanned))
    }
}

/// Lines of a text by their number, asked for in ascending order.
struct Lines<'a> {
    text: &'a str,
    /// Where the line with this number begins.
    at: (usize, usize),
}

impl<'a> Lines<'a> {
    const fn of(text: &'a str) -> Self {
        Self { text, at: (1, 0) }
    }

    fn line(&mut self, number: usize) -> &'a str {
        self.span(number, number)
    }

    /// From the first to the last line, without the last one's ending.
    fn span(&mut self, first: usize, last: usize) -> &'a str {
        let (mut number, mut start) = self.at;
        while number < first {
            let Some(at) = memchr::memchr(b'\n', &self.text.as_bytes()[start..]) else { return "" };
            (number, start) = (number + 1, start + at + 1);
        }
        self.at = (number, start);
        let rest = &self.text[start..];
        let end = memchr::memchr_iter(b'\n', rest.as_bytes()).nth(last - first);
        &rest[..end.unwrap_or(rest.len())]
    }
}

/// Folds blanks, case and Unicode form, line by line: the last of them only as far as that is cheap.
fn fold_bounded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut decomposed = 0;
    for line in text.split_inclusive('\n') {
        if line.is_ascii() {
            let kept = |byte: &u8| *byte == b'\n' || !char::from(*byte).is_whitespace();
            folded.extend(line.bytes().filter(kept).map(|byte| char::from(byte.to_ascii_lowercase())));
            continue;
        }
        decomposed += line.len();
        if decomposed <= MAX_DECOMPOSED_BYTES {
            folded.push_str(&fold(line, Cause::Several));
        } else {
            let kept = line.chars().filter(|&c| c == '\n' || !is_blank(c));
            folded.extend(kept.map(|c| plain(c.to_ascii_lowercase())));
        }
    }
    folded
}

fn fold(text: &str, cause: Cause) -> String {
    match cause {
        Cause::LineEndings => text.replace("\r\n", "\n"),
        Cause::Whitespace => text.chars().filter(|&c| c == '\n' || !is_blank(c)).collect(),
        Cause::Case => text.chars().flat_map(char::to_lowercase).collect(),
        Cause::UnicodeForm => text.nfkc().map(plain).collect(),
        Cause::Several => text
            .nfkc()
            .flat_map(char::to_lowercase)
            .nfkc()
            .map(plain)
            .filter(|&c| c == '\n' || !is_blank(c))
            .collect(),
        Cause::LineNumbers | Cause::Words => text.to_owned(),
    }
}

/// Spaces of every kind, and characters that show nothing.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{00ad}')
}

/// The plain form of a look-alike.
fn plain(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2032}' | '\u{02bc}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201f}' | '\u{2033}' | '\u{00ab}' | '\u{00bb}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        other => other,
    }
}

/// The old text without the numbers of a listing, where each of its lines carries one.
fn without_line_numbers(old: &str) -> Option<String> {
    let bare: Option<Vec<&str>> = old
        .split('\n')
        .map(|line| {
            let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
            let numbered = rest.len() < line.trim_start().len();
            let bare = rest.strip_prefix(['\t', '→', ':', '|'])?;
            numbered.then_some(bare)
        })
        .collect();
    bare.map(|lines| lines.join("\n"))
}

/// The lines most like the old text's longest line.
fn alike_lines(text: &str, old: &str) -> Vec<NearLine> {
    let probe = old.split('\n').map(str::trim).max_by_key(|line| line.len()).unwrap_or_default();
    let probe_pairs = Pairs::of(probe);
    if probe_pairs.total == 0 {
        return Vec::new();
    }
    let mut best: Vec<(usize, usize, &str)> = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let likeness = probe_pairs.likeness(line.trim());
        if likeness < MIN_LIKENESS {
            continue;
        }
        let place = best.partition_point(|&(other, ..)| other >= likeness);
        if place < MAX_LINES {
            best.insert(place, (likeness, index + 1, line));
            best.truncate(MAX_LINES);
        }
    }
    best.into_iter()
        .map(|(_, number, line)| NearLine { number, text: shown(line), cause: cause_of(line, probe) })
        .collect()
}

/// In what one line differs from the probe.
fn cause_of(line: &str, probe: &str) -> Cause {
    let (line, probe) = (capped(line.trim()), capped(probe));
    [Cause::Whitespace, Cause::Case, Cause::UnicodeForm, Cause::Several]
        .into_iter()
        .find(|&cause| fold(line, cause).contains(&fold(probe, cause)))
        .unwrap_or(Cause::Words)
}

/// How often each pair of neighbouring bytes stands in a line, by a hash of the pair.
struct Pairs {
    counts: Box<[u16; 1024]>,
    total: usize,
}

impl Pairs {
    fn of(line: &str) -> Self {
        let mut counts = Box::new([0_u16; 1024]);
        let pairs = capped(line).as_bytes().windows(2);
        let total = pairs.len();
        for pair in pairs {
            counts[Self::slot(pair)] += 1;
        }
        Self { counts, total }
    }

    fn slot(pair: &[u8]) -> usize {
        let value =
            pair.iter().fold(0_usize, |value, byte| value * 31 + usize::from(byte.to_ascii_lowercase()));
        value % 1024
    }

    /// Shared pairs in hundredths of both lines' pairs: 100 for equal lines.
    fn likeness(&self, line: &str) -> usize {
        let line = capped(line).as_bytes();
        let pairs = line.len().saturating_sub(1);
        // Lines of very different length can't reach the threshold: don't count them.
        if pairs * 3 < self.total || self.total * 3 < pairs {
            return 0;
        }
        let mut seen = [0_u16; 1024];
        let mut shared = 0_usize;
        for pair in line.windows(2) {
            let slot = Self::slot(pair);
            if seen[slot] < self.counts[slot] {
                seen[slot] += 1;
                shared += 1;
            }
        }
        200 * shared / (self.total + pairs).max(1)
    }
}

fn capped(line: &str) -> &str {
    let mut end = line.len().min(MAX_COMPARED_BYTES);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

/// A line as it is shown: its spaces and control characters made visible where they could be the cause.
fn shown(line: &str) -> String {
    let mut text = String::new();
    for (count, c) in line.chars().enumerate() {
        if count == MAX_SHOWN_CHARS {
            text.push('…');
            break;
        }
        if c == ' ' || !(is_blank(c) || c.is_control()) {
            text.push(c);
        } else {
            text.extend(c.escape_default());
        }
    }
    text
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineEndings => "differs in line endings: give old_string with plain line feeds",
            Self::Whitespace => "differs in whitespace",
            Self::Case => "differs in upper and lower case",
            Self::UnicodeForm => "differs in Unicode form (composed characters or look-alikes)",
            Self::Several => "differs in whitespace, case or Unicode form",
            Self::LineNumbers => "old_string carries the listing's line numbers: leave them out",
            Self::Words => "is similar",
        })
    }
}

impl fmt::Display for NoMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("old_string was found 0 times in the file")?;
        if self.nearest.is_empty() {
            return f
                .write_str(", and no line resembles it; read the file again and copy the text to replace");
        }
        f.write_str(if self.whole { "; it would match but for this:" } else { "; the nearest lines:" })?;
        for line in &self.nearest {
            write!(f, "\n  line {}: `{}` ({})", line.number, line.text, line.cause)?;
        }
        f.write_str("\ncopy the text to replace exactly as it stands there")
    }
}
