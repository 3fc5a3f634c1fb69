//! Reads the top level of a JSON object piece by piece, whatever its size.
//!
//! A request of Claude Code holds its whole history, and a line of its output a whole reply: megabytes of which a few
//! fields are needed. This scanner keeps those fields, counts the elements of one list, and remembers the digest of its last
//! element. The peer is our own child; what the scanner lets through where JSON is malformed below the top level decides nothing.
//!
//! Invariant: memory is bounded by the asked-for sizes, not by the input. Depth costs nothing.

mod list;
#[cfg(test)]
mod tests;

pub(crate) use list::Listed;
use list::Listing;

/// Longest key that is compared; a longer one is none of ours.
const KEY_BYTES: usize = 128;

/// A field to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its key.
    pub(crate) name: &'static str,
    /// How many bytes of its JSON text to keep.
    pub(crate) bytes: usize,
}

/// What to look for in an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// The fields to keep.
    pub(crate) fields: &'static [Wanted],
    /// The key of the list whose elements are counted; empty for none.
    pub(crate) list: &'static str,
}

/// The bytes are not a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object")]
pub(crate) struct NotAnObject;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    plan: &'static [Wanted],
    values: Vec<Vec<u8>>,
    /// The list, where the object has it.
    pub(crate) list: Option<Listed>,
}

impl Found {
    /// The JSON text of a field, cut at its bound; none where the object lacks it.
    pub(crate) fn text(&self, name: &str) -> Option<&[u8]> {
        let at = self.plan.iter().position(|wanted| wanted.name == name)?;
        self.values.get(at).filter(|value| !value.is_empty()).map(Vec::as_slice)
    }

    /// A field's value; none where the object lacks it, it is of another type, or it is longer than what was kept.
    pub(crate) fn value<'a, T: serde::Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        serde_json::from_slice(self.text(name)?).ok()
    }
}

/// Where the scanner stands between two tokens of the top level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Key,
    Colon,
    Value,
    After,
}

/// Takes an object in pieces.
#[derive(Debug)]
pub(crate) struct Scanner {
    plan: Plan,
    place: Place,
    depth: usize,
    in_string: bool,
    escaped: bool,
    key: Vec<u8>,
    /// The wanted field whose value is being read.
    keeping: Option<usize>,
    values: Vec<Vec<u8>>,
    listing: Option<Listing>,
    in_list: bool,
}

impl Scanner {
    /// A scanner at the start of an object.
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            place: Place::Before,
            depth: 0,
            in_string: false,
            escaped: false,
            key: Vec::new(),
            keeping: None,
            values: vec![Vec::new(); plan.fields.len()],
            listing: None,
            in_list: false,
        }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// Where the input can't be a JSON object.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), NotAnObject> {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let taken = if self.in_string { self.string(rest) } else { self.token(byte)? };
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// What was found.
    ///
    /// # Errors
    /// Where the object is not complete.
    pub(crate) fn finish(self) -> Result<Found, NotAnObject> {
        if self.place != Place::After || self.in_string {
            return Err(NotAnObject);
        }
        Ok(Found { plan: self.plan.fields, values: self.values, list: self.listing.map(Listing::finish) })
    }

    /// Takes what belongs to the open string and says how much that was.
    fn string(&mut self, rest: &[u8]) -> usize {
        if self.escaped {
            self.escaped = false;
            self.keep(&rest[..1]);
            return 1;
        }
        let Some(at) = memchr::memchr2(b'"', b'\\', rest) else {
            self.keep(rest);
            return rest.len();
        };
        let taken = at + 1;
        self.keep(&rest[..taken]);
        if rest[at] == b'\\' {
            self.escaped = true;
        } else {
            self.in_string = false;
            if self.place == Place::Key {
                self.key_is_read();
            }
        }
        taken
    }

    /// Takes one byte outside of strings.
    fn token(&mut self, byte: u8) -> Result<usize, NotAnObject> {
        if byte.is_ascii_whitespace() {
            return Ok(1);
        }
        match (self.place, byte) {
            (Place::Before, b'{') => {
                self.depth = 1;
                self.place = Place::Key;
            }
            (Place::Key, b'"') => {
                self.in_string = true;
                self.key.clear();
                self.keep(&[byte]);
            }
            // Also taken between a trailing comma and the end, which only a stricter reader would refuse.
            (Place::Key, b'}') => self.place = Place::After,
            (Place::Colon, b':') => self.place = Place::Value,
            (Place::Value, _) => self.value(byte)?,
            (Place::Before | Place::Key | Place::Colon | Place::After, _) => return Err(NotAnObject),
        }
        Ok(1)
    }

    fn value(&mut self, byte: u8) -> Result<(), NotAnObject> {
        match (self.depth, byte) {
            (1, b',') => {
                self.value_is_read();
                self.place = Place::Key;
                return Ok(());
            }
            (1, b'}') => {
                self.value_is_read();
                self.place = Place::After;
                return Ok(());
            }
            (1, b'[') if self.in_list => self.listing = Some(Listing::default()),
            (2, b',' | b']') => {
                if let Some(listing) = self.open_listing() {
                    listing.end_element();
                }
                self.keep_field(&[byte]);
                self.depth -= usize::from(byte == b']');
                return Ok(());
            }
            _ => {}
        }
        self.keep(&[byte]);
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.checked_sub(1).filter(|d| *d > 0).ok_or(NotAnObject)?,
            b'"' => self.in_string = true,
            _ => {}
        }
        Ok(())
    }

    /// The list that the current byte stands in, if it is the one that is counted.
    fn open_listing(&mut self) -> Option<&mut Listing> {
        if self.in_list { self.listing.as_mut() } else { None }
    }

    /// Gives bytes to whoever wants them.
    fn keep(&mut self, bytes: &[u8]) {
        if self.place == Place::Key {
            let room = KEY_BYTES.saturating_sub(self.key.len());
            self.key.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        self.keep_field(bytes);
        if self.depth >= 2
            && let Some(listing) = self.open_listing()
        {
            listing.take(bytes);
        }
    }

    fn keep_field(&mut self, bytes: &[u8]) {
        let Some(at) = self.keeping else { return };
        if let (Some(value), Some(wanted)) = (self.values.get_mut(at), self.plan.fields.get(at)) {
            let room = wanted.bytes.saturating_sub(value.len());
            value.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn key_is_read(&mut self) {
        self.place = Place::Colon;
        let key: Option<String> = serde_json::from_slice(&self.key).ok();
        let key = key.as_deref().unwrap_or_default();
        self.keeping = self.plan.fields.iter().position(|wanted| wanted.name == key);
        if let Some(value) = self.keeping.and_then(|at| self.values.get_mut(at)) {
            // Of two fields with one key the last one counts.
            value.clear();
        }
        self.in_list = !self.plan.list.is_empty() && key == self.plan.list;
        if self.in_list {
            self.listing = None;
        }
    }

    fn value_is_read(&mut self) {
        self.keeping = None;
        self.in_list = false;
    }
}
