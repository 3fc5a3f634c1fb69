//! The install key, and what is derived from it: recovery tokens and link keys. No copy of them is stored.
#![expect(clippy::disallowed_methods, reason = "the install key's file")]

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use protocol::{
    id::SessionId,
    secret::{Secret, Token},
    wire::hello::keyed,
};

const FILE_NAME: &str = "install.key";
const BYTES: usize = 32;

/// 32 random bytes of this installation.
#[derive(Debug, Clone)]
pub(crate) struct InstallKey(Secret<[u8; BYTES]>);

impl InstallKey {
    /// The key in the state directory, made at the first start. The caller holds the state directory's lock.
    ///
    /// # Errors
    /// Where the file can't be read or made, is not this user's alone, or is not a key.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let path = state.join(FILE_NAME);
        match File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
            Ok(file) => read(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(state),
            Err(error) => Err(error),
        }
    }

    /// The token that proves the right to recover a session.
    pub(crate) fn recovery_token(&self, session: SessionId) -> Token {
        Secret::new(keyed(&self.0, &[b"recovery token", session.as_bytes()])).to_token()
    }

    /// The key that both ends of the link to a session's worker prove to know.
    pub(crate) fn link_key(&self, session: SessionId, launch: u32) -> Secret<[u8; BYTES]> {
        Secret::new(keyed(&self.0, &[b"link key", session.as_bytes(), &launch.to_be_bytes()]))
    }
}

fn read(mut file: File) -> io::Result<InstallKey> {
    let found = file.metadata()?;
    let refused = |why: &str| Err(io::Error::other(format!("{FILE_NAME} in the state directory {why}")));
    if found.uid() != nix::unistd::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return refused("is not this user's alone; restore it with mode 0600");
    }
    if found.len() != BYTES as u64 {
        return refused(
            "is not a key of 32 bytes; restore it from a backup, or remove it and lose the recovery tokens",
        );
    }
    let mut bytes = [0; BYTES];
    file.read_exact(&mut bytes)?;
    Ok(InstallKey(Secret::new(bytes)))
}

/// Written beside its place and renamed, so that a crash leaves either no key or a whole one.
fn make(state: &Path) -> io::Result<InstallKey> {
    let key = Secret::<[u8; BYTES]>::random().map_err(|error| io::Error::other(error.to_string()))?;
    let staged = state.join("install.key.new");
    match fs::remove_file(&staged) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&staged)?;
    file.write_all(key.expose())?;
    file.sync_all()?;
    fs::rename(&staged, state.join(FILE_NAME))?;
    File::open(state)?.sync_all()?;
    Ok(InstallKey(key))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_derives_one_token_per_session_and_one_key_per_launch() {
        let state = tempfile::tempdir().unwrap();
        let (first, second) =
            (InstallKey::open(state.path()).unwrap(), InstallKey::open(state.path()).unwrap());
        let (a, b) = (SessionId::mint(), SessionId::mint());
        assert_eq!(first.recovery_token(a).expose(), second.recovery_token(a).expose());
        assert_ne!(first.recovery_token(a).expose(), first.recovery_token(b).expose());
        assert_ne!(first.link_key(a, 1).expose(), first.link_key(a, 2).expose());
        assert_ne!(first.link_key(a, 1).to_token().expose(), first.recovery_token(a).expose());
    }

    #[test]
    fn a_key_that_others_may_read_or_that_is_cut_is_refused() {
        let state = tempfile::tempdir().unwrap();
        InstallKey::open(state.path()).unwrap();
        let path = state.path().join(FILE_NAME);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(InstallKey::open(state.path()).unwrap_err().to_string().contains("0600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(InstallKey::open(state.path()).unwrap_err().to_string().contains("32 bytes"));
    }
}
