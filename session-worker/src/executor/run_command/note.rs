//! What a command that failed may not know: that it ran in a cage. Told where its output looks as if it had met a wall.

/// Words of a refusal, in lower case, and what is behind them. The first that fits is told.
const MEANINGS: &[(&[&str], &str)] = &[
    (
        &["cargo.lock"],
        "the project is read-only here, and cargo wants to write Cargo.lock: it is missing or out of date; its owner makes \
         it with `cargo generate-lockfile`",
    ),
    (
        &["read-only file system", "erofs"],
        "commands write nothing but the session's scratch ($HOME, $TMPDIR and the caches are in it); let the tool put its \
         output below $TMPDIR",
    ),
    (
        &["enotcached", "could not resolve", "name resolution", "getaddrinfo", "offline", "goproxy"],
        "commands have no network; what they need is installed or downloaded beforehand, by the owner",
    ),
    (
        &["socket", "listen eperm", "bind", "connect eperm", "daemon"],
        "commands have no network and no sockets of any family, so nothing can listen or connect, not even on the loopback \
         address",
    ),
];

/// A refusal's own words: without them nothing is explained.
const REFUSED: &[&str] = &[
    "read-only file system",
    "erofs",
    "operation not permitted",
    "eperm",
    "permissionerror",
    "enotcached",
    "could not resolve",
    "name resolution",
    "getaddrinfo",
    "offline",
    "goproxy=off",
];

/// The explanation for what a failed command printed.
pub(super) fn on(output: &str) -> Option<&'static str> {
    let output = output.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| output.contains(word));
    if !says(REFUSED) {
        return None;
    }
    MEANINGS.iter().find(|(words, _)| says(words)).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_is_explained_and_an_honest_failure_is_not() {
        for (output, part) in [
            ("failed to open: /p/Cargo.lock\nRead-only file system (os error 30)", "generate-lockfile"),
            ("touch: cannot touch 'x': Read-only file system", "scratch"),
            ("npm error code ENOTCACHED", "no network"),
            ("_socket.socket\nPermissionError: [Errno 1] Operation not permitted", "sockets"),
            ("Error: listen EPERM: operation not permitted 127.0.0.1", "sockets"),
        ] {
            assert!(on(output).is_some_and(|note| note.contains(part)), "{output}: {:?}", on(output));
        }
        for output in ["1 test failed", "error: no socket in Cargo.lock", ""] {
            assert_eq!(on(output), None, "{output}");
        }
    }
}
