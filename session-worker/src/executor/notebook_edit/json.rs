//! Finds the parts of a JSON text by where they stand, without building a tree.
//!
//! `NaN`, `Infinity` and `-Infinity` are accepted as numbers: Python writes them into outputs.
//!
//! Invariant: depth costs one byte of heap a level and no stack, so no text overflows it.

/// A part of the text: `start..end` in bytes, without the space around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// The bytes of `text` that it covers.
    pub(super) fn of(self, text: &str) -> &str {
        &text[self.start..self.end]
    }
}

/// One member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// The decoded key; a key that is no valid Unicode is kept as it is written.
    pub(super) name: String,
    pub(super) key: Span,
    pub(super) value: Span,
}

/// Where and why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) offset: usize,
    pub(super) expected: &'static str,
}

/// Checks the whole text and returns the span of its one value; a byte order mark before it is passed over.
pub(super) fn document(text: &str) -> Result<Span, Broken> {
    let mut scanner =
        Scanner { bytes: text.as_bytes(), at: if text.starts_with('\u{feff}') { 3 } else { 0 } };
    let value = scanner.value()?;
    scanner.space();
    if scanner.at < text.len() { Err(scanner.broken("the end of the text")) } else { Ok(value) }
}

/// The members of an object, in their order; `None` where the value is not an object.
pub(super) fn members(text: &str, object: Span) -> Result<Option<Vec<Member>>, Broken> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: object.start };
    if !scanner.take(b'{') {
        return Ok(None);
    }
    let mut found = Vec::new();
    scanner.space();
    if scanner.take(b'}') {
        return Ok(Some(found));
    }
    loop {
        let key = scanner.key()?;
        let value = scanner.value()?;
        let name = string(text, key).unwrap_or_else(|| key.of(text).to_owned());
        found.push(Member { name, key, value });
        scanner.space();
        if !scanner.take(b',') {
            return Ok(Some(found));
        }
    }
}

/// The items of an array, in their order; `None` where the value is not an array.
pub(super) fn items(text: &str, array: Span) -> Result<Option<Vec<Span>>, Broken> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: array.start };
    if !scanner.take(b'[') {
        return Ok(None);
    }
    let mut found = Vec::new();
    scanner.space();
    if scanner.take(b']') {
        return Ok(Some(found));
    }
    loop {
        found.push(scanner.value()?);
        scanner.space();
        if !scanner.take(b',') {
            return Ok(Some(found));
        }
    }
}

/// The decoded string; `None` where the value is no string or holds half of a surrogate pair.
pub(super) fn string(text: &str, value: Span) -> Option<String> {
    let literal = value.of(text);
    if literal.starts_with('"') { serde_json::from_str(literal).ok() } else { None }
}

#[derive(Clone, Copy)]
enum Container {
    Object,
    Array,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn broken(&self, expected: &'static str) -> Broken {
        Broken { offset: self.at, expected }
    }

    /// One value of any depth, with the space before it.
    fn value(&mut self) -> Result<Span, Broken> {
        self.space();
        let start = self.at;
        let mut open: Vec<Container> = Vec::new();
        loop {
            if self.enter(&mut open)? {
                continue;
            }
            // A value has ended: close what ends with it, or go on to the next one.
            loop {
                let Some(&container) = open.last() else {
                    return Ok(Span { start, end: self.at });
                };
                self.space();
                let (close, expected) = match container {
                    Container::Object => (b'}', "`,` or `}`"),
                    Container::Array => (b']', "`,` or `]`"),
                };
                if self.take(b',') {
                    if let Container::Object = container {
                        self.key()?;
                    }
                    break;
                }
                if !self.take(close) {
                    return Err(self.broken(expected));
                }
                open.pop();
            }
        }
    }

    /// Reads a scalar or an empty container, or opens a container; true where a first value must follow.
    fn enter(&mut self, open: &mut Vec<Container>) -> Result<bool, Broken> {
        self.space();
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                self.space();
                if self.take(b'}') {
                    return Ok(false);
                }
                self.key()?;
                open.push(Container::Object);
                Ok(true)
            }
            Some(b'[') => {
                self.at += 1;
                self.space();
                if self.take(b']') {
                    return Ok(false);
                }
                open.push(Container::Array);
                Ok(true)
            }
            Some(b'"') => self.text().map(|_| false),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| false),
            _ => self.word().map(|()| false),
        }
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<Span, Broken> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.broken("a key in quotes"));
        }
        let key = self.text()?;
        self.space();
        if self.take(b':') { Ok(key) } else { Err(self.broken("`:`")) }
    }

    fn text(&mut self) -> Result<Span, Broken> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Span { start, end: self.at });
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                Some(_) => return Err(self.broken("an escape instead of a control character")),
                None => return Err(self.broken("the closing quote")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Broken> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.broken("four hexadecimal digits"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.broken("a known escape")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Broken> {
        self.take(b'-');
        if self.bytes[self.at..].starts_with(b"Infinity") {
            return self.word();
        }
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Broken> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.broken("a digit")) } else { Ok(()) }
    }

    fn word(&mut self) -> Result<(), Broken> {
        let rest = &self.bytes[self.at..];
        let word = ["null", "true", "false", "NaN", "Infinity"]
            .iter()
            .find(|word| rest.starts_with(word.as_bytes()));
        match word {
            Some(word) => {
                self.at += word.len();
                Ok(())
            }
            None => Err(self.broken("a value")),
        }
    }
}
