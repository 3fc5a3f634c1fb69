//! Looks through a model's answer on its way: is it whole, within its bounds, and none that ends the task?
//!
//! Invariant: what it holds of an answer does not grow with it.

use protocol::limits::{SUBSESSION_ANSWER_BYTES, SUBSESSION_CALLS};

/// How an answer says that the model refuses.
const REFUSAL: &[u8] = b"\"stop_reason\":\"refusal\"";

/// How a stream says that it failed.
const ERROR: &[u8] = b"\"type\":\"error\"";

/// How a stream says that it is whole.
const STOP: &[u8] = b"\"type\":\"message_stop\"";

/// How a stream begins a call.
const CALL: &[u8] = b"\"type\":\"tool_use\"";

/// The longest of these.
const LONGEST: usize = REFUSAL.len();

/// An answer that passes by. In a string of its JSON every quote is escaped, so none of the words above is found there.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Its last bytes without blanks: what may be the beginning of a word.
    window: Vec<u8>,
    bytes: usize,
    calls: usize,
    whole: bool,
}

impl Watch {
    /// Takes the next piece.
    ///
    /// # Errors
    /// Where the answer ends the task; a public sentence.
    pub(super) fn see(&mut self, piece: &[u8]) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > SUBSESSION_ANSWER_BYTES {
            let most = SUBSESSION_ANSWER_BYTES / 1024 / 1024;
            return Err(format!("the model's answer is larger than {most} MiB"));
        }
        let before = self.window.len();
        self.window.extend(piece.iter().filter(|byte| !byte.is_ascii_whitespace()));
        let found = |word: &[u8]| memchr::memmem::find(&self.window, word).is_some();
        if found(REFUSAL) {
            return Err("the model refused the task".to_owned());
        }
        if found(ERROR) {
            return Err("the model's endpoint broke its answer off with an error".to_owned());
        }
        self.whole = self.whole || found(STOP);
        // One that was counted with the piece before lies in the window's old part with its last byte.
        let ends = memchr::memmem::find_iter(&self.window, CALL).map(|at| at + CALL.len());
        self.calls += ends.filter(|end| *end > before).count();
        if self.calls > SUBSESSION_CALLS {
            return Err(format!("its model asked for more than {SUBSESSION_CALLS} tool calls at once"));
        }
        let over = self.window.len().saturating_sub(LONGEST - 1);
        self.window.drain(..over);
        Ok(())
    }

    /// The answer's end.
    ///
    /// # Errors
    /// Where it is none yet; a public sentence.
    pub(super) fn end(&self) -> Result<(), String> {
        match (self.whole, self.bytes) {
            (true, _) => Ok(()),
            (false, 0) => Err("the model's endpoint answered nothing".to_owned()),
            (false, _) => Err("the model's answer broke off".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, piece: usize) -> Result<(), String> {
        let mut watch = Watch::default();
        for piece in text.as_bytes().chunks(piece) {
            watch.see(piece)?;
        }
        watch.end()
    }

    #[test]
    fn what_ends_a_task_is_seen_however_it_is_cut() {
        let good = "data: {\"type\" : \"message_stop\"}\n\n";
        let call = "data: {\"content_block\":{\"type\":\"tool_use\"}}\n";
        for piece in [1, 2, 7, 1000] {
            assert_eq!(seen(good, piece), Ok(()));
            for (text, words) in [
                (String::new(), "nothing"),
                ("data: {}\n\n".to_owned(), "broke off"),
                (format!("{{\"stop_reason\": \"refusal\"}}{good}"), "refused"),
                (format!("{{\"type\":\n\"error\"}}{good}"), "error"),
                (format!("{}{good}", call.repeat(SUBSESSION_CALLS + 1)), "tool calls at once"),
            ] {
                let why = seen(&text, piece).unwrap_err();
                assert!(why.contains(words), "{text}: {why}");
            }
            assert_eq!(seen(&format!("{}{good}", call.repeat(SUBSESSION_CALLS)), piece), Ok(()));
            let quoted = format!(
                "{{\"text\":\"{{\\\"type\\\":\\\"error\\\",\\\"stop_reason\\\":\\\"refusal\\\"}}\"}}{good}"
            );
            assert_eq!(seen(&quoted, piece), Ok(()), "a model may speak of it");
        }
    }

    #[test]
    fn an_answer_is_bounded_and_so_is_what_is_kept_of_it() {
        let mut watch = Watch::default();
        let piece = vec![b'x'; 1024 * 1024];
        let mut pieces = 0;
        while watch.see(&piece).is_ok() {
            pieces += 1;
            assert!(watch.window.len() < LONGEST && pieces <= SUBSESSION_ANSWER_BYTES / piece.len());
        }
        assert_eq!(pieces, SUBSESSION_ANSWER_BYTES / piece.len());
    }
}
