//! The bearer token: made at first start, kept in `STATE/token`, compared in constant time.
//!
//! The file holds 64 hex digits and a line feed. It is only read at the start and at a rotation: while the gateway runs, the token
//! in memory counts, so that a deleted file locks nobody out who is in.
//!
//! Invariant: the file is 0600 from its first byte on, and at its name there is always a whole token or none.
//! Invariant: a file that holds no token is never replaced silently: the clients out there hold another.
#![expect(clippy::disallowed_methods, reason = "the bearer token's file")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock},
};

use protocol::secret::{Secret, Token};

/// Name of the file in the state directory.
pub const FILE: &str = "token";

/// What is read of it: a token has 64 bytes; the rest only has to be recognised as too much.
const READ_BYTES: u64 = 256;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file could not be read or written.
    #[error("{attempted} the token file {}: {source}; check that the folder is yours, writable and not full", path.display())]
    Io {
        /// What was attempted.
        attempted: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else.
    #[error(
        "reading the token file {}: it does not hold a token (64 hex digits); delete it to have a new one made at the next start, \
         and give the clients that one", .0.display()
    )]
    Damaged(PathBuf),
    /// The file is another user's, a link, or no regular file.
    #[error("reading the token file {}: it is not a regular file of this user; move it away and start again", .0.display())]
    Foreign(PathBuf),
    /// The system has no random bytes to give.
    #[error("making a token: the system's random source failed: {0}")]
    Random(String),
}

/// How the file stands to the token in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TokenFile {
    /// It holds the token.
    Same,
    /// It is gone; the token in memory still counts until the gateway stops. A rotation makes a new file.
    Missing,
    /// It holds something else, or can't be read. The token in memory still counts; a rotation makes a new file.
    Differs,
}

/// The token that counts, and its file.
#[derive(Debug)]
pub struct Bearer {
    path: PathBuf,
    current: RwLock<Token>,
}

impl Bearer {
    /// Reads the token of a state directory, or makes one where there is none.
    ///
    /// # Errors
    /// Where the file is damaged, foreign, or can't be read or made.
    pub fn open(state: &Path) -> Result<Self, TokenError> {
        let path = state.join(FILE);
        let token = match read(&path)? {
            Some(token) => token,
            None => make(&path)?,
        };
        Ok(Self { path, current: RwLock::new(token) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is the token. Takes the same time wherever the two differ.
    #[must_use]
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.current.read().unwrap_or_else(PoisonError::into_inner).matches(presented)
    }

    /// Makes a new token; the old one is refused from the moment this returns.
    ///
    /// # Errors
    /// Where the file can't be written; the old token then still counts.
    pub fn rotate(&self) -> Result<(), TokenError> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = make(&self.path)?;
        Ok(())
    }

    /// How the file stands, for `status` and `doctor`.
    pub fn file(&self) -> TokenFile {
        match read(&self.path) {
            Ok(Some(token)) if self.matches(token.expose().as_bytes()) => TokenFile::Same,
            Ok(None) => TokenFile::Missing,
            Ok(Some(_)) | Err(_) => TokenFile::Differs,
        }
    }
}

fn failed(attempted: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TokenError {
    let path = path.to_owned();
    move |source| TokenError::Io { attempted, path, source }
}

fn read(path: &Path) -> Result<Option<Token>, TokenError> {
    // Opening a FIFO or a device must not block, and a link is somebody else's word for where the token is.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(TokenError::Foreign(path.to_owned()));
        }
        Err(error) => return Err(failed("opening", path)(error)),
    };
    let facts = file.metadata().map_err(failed("examining", path))?;
    if !facts.is_file() || facts.uid() != nix::unistd::geteuid().as_raw() {
        return Err(TokenError::Foreign(path.to_owned()));
    }
    if facts.mode() & 0o077 != 0 {
        tracing::warn!("the token file could be read by other users; it is closed now: rotate the token");
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed("closing to others", path))?;
    }
    let mut text = String::new();
    match file.take(READ_BYTES).read_to_string(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(TokenError::Damaged(path.to_owned()));
        }
        Err(error) => return Err(failed("reading", path)(error)),
    }
    let digits = text.trim_ascii();
    if digits.len() != 64 || !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(TokenError::Damaged(path.to_owned()));
    }
    Ok(Some(Secret::new(digits.to_owned())))
}

/// Writes a new token beside the file and renames it into its place, so that a crash leaves the old file or the new one.
fn make(path: &Path) -> Result<Token, TokenError> {
    let random = Secret::<[u8; 32]>::random().map_err(|error| TokenError::Random(error.to_string()))?;
    let token = random.to_token();
    let temporary = path.with_extension("new");
    // One that a crash left behind; nothing else writes here, the state directory is locked by one gateway.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("replacing", &temporary)(error));
        }
        Ok(()) | Err(_) => {}
    }
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        // The umask can only take bits away; this gives the owner's back.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        writeln!(file, "{}", token.expose())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    write().map_err(failed("making", path))?;
    Ok(token)
}

#[cfg(test)]
mod tests {

    use super::*;

    fn text(bearer: &Bearer) -> String {
        fs::read_to_string(bearer.path()).unwrap().trim().to_owned()
    }

    #[test]
    fn it_is_made_once_closed_to_others_and_read_again() {
        let state = tempfile::tempdir().unwrap();
        let first = Bearer::open(state.path()).unwrap();
        let facts = fs::metadata(first.path()).unwrap();
        assert_eq!((facts.mode() & 0o7777, facts.len()), (0o600, 65));
        let digits = text(&first);
        let again = Bearer::open(state.path()).unwrap();
        assert!(again.matches(digits.as_bytes()) && again.file() == TokenFile::Same);
        for wrong in
            ["", &digits[1..], &format!("{digits}0"), &digits.to_uppercase().replace(['A', 'B'], "0")]
        {
            assert!(!again.matches(wrong.as_bytes()), "{wrong}");
        }
        assert!(!format!("{again:?}").contains(&digits));
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_file_is_named_and_left_alone() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join(FILE);
        let hex = "a".repeat(64);
        for content in [
            Vec::new(),
            b"\n".to_vec(),
            b"short".to_vec(),
            hex.to_uppercase().into_bytes(),
            format!("{hex}{hex}").into_bytes(),
            vec![0xff; 64],
            vec![b'a'; 1 << 20],
        ] {
            fs::write(&path, &content).unwrap();
            let error = Bearer::open(state.path()).unwrap_err();
            assert!(matches!(error, TokenError::Damaged(_)), "{error}");
            assert!(error.to_string().contains("delete it"));
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(matches!(Bearer::open(state.path()), Err(TokenError::Foreign(_))));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        assert!(matches!(Bearer::open(state.path()), Err(TokenError::Foreign(_))));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(Bearer::open(state.path()), Err(TokenError::Foreign(_))));
    }

    #[test]
    fn an_open_file_is_closed_to_others() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join(FILE);
        fs::write(&path, "b".repeat(64)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        Bearer::open(state.path()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_token_in_memory_counts_until_it_is_rotated() {
        let state = tempfile::tempdir().unwrap();
        let bearer = Bearer::open(state.path()).unwrap();
        let first = text(&bearer);
        fs::remove_file(bearer.path()).unwrap();
        assert!(bearer.matches(first.as_bytes()) && bearer.file() == TokenFile::Missing);
        fs::write(bearer.path(), "c".repeat(64)).unwrap();
        assert!(bearer.file() == TokenFile::Differs && !bearer.matches(&[b'c'; 64]));
        // What a crash in the middle of a rotation leaves.
        fs::write(state.path().join("token.new"), "half").unwrap();
        bearer.rotate().unwrap();
        let second = text(&bearer);
        assert!(bearer.matches(second.as_bytes()) && !bearer.matches(first.as_bytes()));
        assert_eq!(bearer.file(), TokenFile::Same);
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_takes_no_file_is_named() {
        let state = tempfile::tempdir().unwrap();
        let error = Bearer::open(&state.path().join("absent")).unwrap_err().to_string();
        assert!(error.contains("absent") && error.contains("making the token file"), "{error}");
    }
}
