//! A skill's text: one spelling of its line ends, and its instructions without the front matter.

use protocol::digest::Digest;

/// A text without a byte order mark, with LF line ends.
#[derive(Clone, PartialEq, Eq)]
pub struct Normalised(String);

/// Takes off one byte order mark and turns CRLF and CR into LF.
#[must_use]
pub fn normalise(text: &str) -> Normalised {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Normalised(text.replace("\r\n", "\n").replace('\r', "\n"))
}

impl Normalised {
    /// The digest that the allowlist pins.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// What follows the front matter; the whole text where there is none; none where it opens and never closes.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        let Some(mut rest) = after_fence(&self.0) else { return Some(&self.0) };
        loop {
            if let Some(body) = after_fence(rest) {
                return Some(body);
            }
            rest = rest.split_once('\n')?.1;
        }
    }
}

/// What follows a first line of `---` and nothing else but trailing blanks.
fn after_fence(text: &str) -> Option<&str> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    (line.strip_prefix("---")?.trim_end_matches([' ', '\t']).is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_goes_and_nothing_else() {
        for (text, instructions) in [
            ("plain\n---\nmore", Some("plain\n---\nmore")),
            ("---\na: 1\n---\nbody", Some("body")),
            ("--- \na: 1\n---\t\n\nbody\n", Some("\nbody\n")),
            ("---\n---", Some("")),
            ("---\na: '---x'\n ---\n---\nb", Some("b")),
            ("----\nbody", Some("----\nbody")),
            ("---\nnever", None),
            ("---", None),
            ("", Some("")),
        ] {
            assert_eq!(normalise(text).instructions(), instructions, "{text:?}");
        }
    }

    #[test]
    fn only_one_mark_and_only_line_ends_are_normalised() {
        assert_eq!(normalise("\u{feff}\u{feff}a\r\n\r\rb \t").0, "\u{feff}a\n\n\nb \t");
    }
}
