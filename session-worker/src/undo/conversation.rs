//! What is said between the supervisor and an undo: one JSON line each, over the standard streams.

use std::io::{self, BufRead, BufReader, Read, Stdin, Stdout, Write};

use protocol::limits::LAUNCH_BYTES;
use serde::{Serialize, de::DeserializeOwned};

/// The two directions.
pub(super) struct Conversation {
    heard: BufReader<Stdin>,
    said: Stdout,
}

impl Conversation {
    pub(super) fn over_standard_streams() -> Self {
        Self { heard: BufReader::new(io::stdin()), said: io::stdout() }
    }

    /// The next line, as what it is expected to be.
    ///
    /// # Errors
    /// Where the supervisor is gone, or says something else.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = Vec::new();
        self.heard.by_ref().take(LAUNCH_BYTES).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        serde_json::from_slice(&line).map_err(io::Error::other)
    }

    /// Says one thing.
    ///
    /// # Errors
    /// Where the supervisor is gone.
    pub(super) fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.said.write_all(&line)?;
        self.said.flush()
    }
}
