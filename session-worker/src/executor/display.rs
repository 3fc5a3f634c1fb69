//! How paths and lines are written into a result: always valid text, one line each, nothing that moves a cursor.

use std::{borrow::Cow, fmt::Write, os::unix::ffi::OsStrExt, path::Path};

/// A path on one line: as it is where it is plain text, else in quotes with escapes.
pub(crate) fn path(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) if !text.chars().any(char::is_control) => Cow::Borrowed(text),
        Some(_) | None => Cow::Owned(quoted(path.as_os_str().as_bytes())),
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => text.extend(['\\', character]),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                _ if character.is_control() => text.extend(character.escape_unicode()),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('"');
    text
}

/// The longest start of `text` that has at most `bytes` bytes and ends between characters.
pub(crate) fn start(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Appends a line's text; control characters but the tab become their pictures. Returns how many were replaced.
pub(crate) fn push_visible(into: &mut String, text: &str) -> u64 {
    if !text.bytes().any(|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f || byte == 0xc2) {
        into.push_str(text);
        return 0;
    }
    let mut replaced = 0;
    for character in text.chars() {
        let code = u32::from(character);
        let picture = match code {
            0x09 => None,
            0x00..=0x1f => char::from_u32(0x2400 + code),
            0x7f => Some('\u{2421}'),
            0x80..=0x9f => Some('\u{fffd}'),
            _ => None,
        };
        replaced += u64::from(picture.is_some());
        into.push(picture.unwrap_or(character));
    }
    replaced
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, path::PathBuf};

    use super::*;

    #[test]
    fn a_path_is_one_line_of_valid_text() {
        for (bytes, shown) in [
            (&b"/a/b c"[..], "/a/b c"),
            (b"/a/\xc3\xa9", "/a/é"),
            (b"/a\nb", "\"/a\\nb\""),
            (b"/a\xffb\"", "\"/a\\xffb\\\"\""),
            (b"/a\x1b[2J", "\"/a\\u{1b}[2J\""),
        ] {
            assert_eq!(path(&PathBuf::from(OsStr::from_bytes(bytes))), shown);
        }
    }

    #[test]
    fn control_characters_are_shown_as_pictures() {
        let mut shown = String::new();
        assert_eq!(push_visible(&mut shown, "a\tb\u{1b}[0m\0\u{7f}\u{9b}é\r"), 5);
        assert_eq!(shown, "a\tb␛[0m␀␡\u{fffd}é␍");
    }
}
