//! The elements of one list: how many there are, and the digest of the last one.

use protocol::digest::{Digest, Hasher};

/// An element up to this size is hashed only if it turns out to be the last: results are at most 64 KiB, a prompt too.
const BUFFERED: usize = 512 * 1024;

/// What a list held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    /// How many elements.
    pub(crate) elements: u64,
    /// Digest of the last element's bytes, without the white space between its tokens.
    pub(crate) last: Digest,
}

/// A list that is being read.
#[derive(Debug, Default)]
pub(super) struct Listing {
    ended: u64,
    open: bool,
    buffer: Vec<u8>,
    hasher: Hasher,
    hashing: bool,
}

impl Listing {
    /// The next bytes of an element; the first ones after an end begin a new one.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if !self.open {
            self.open = true;
            self.buffer.clear();
            if std::mem::take(&mut self.hashing) {
                self.hasher = Hasher::default();
            }
        }
        if self.buffer.len() + bytes.len() > BUFFERED {
            self.hasher.update(&self.buffer);
            self.hasher.update(bytes);
            self.buffer.clear();
            self.hashing = true;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The element's end: a comma or the list's closing bracket.
    pub(super) fn end_element(&mut self) {
        if std::mem::take(&mut self.open) {
            self.ended += 1;
        }
    }

    /// The whole list.
    pub(super) fn finish(mut self) -> Listed {
        self.hasher.update(&self.buffer);
        Listed { elements: self.ended, last: self.hasher.finish() }
    }
}
