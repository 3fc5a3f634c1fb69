//! The key of the sub-sessions' model, from the owner's file.
//!
//! Invariant: a file that anybody else may read is refused; no error repeats what it holds.

use std::{
    fs::OpenOptions,
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use protocol::secret::Secret;

/// Longer than any key.
const KEY_BYTES: u64 = 4 * 1024;

/// Why there is no key, as a public sentence without a path.
pub(super) type NoKey = String;

/// Reads the key.
///
/// # Errors
/// Where there is none, or the file is not its owner's alone.
pub(super) fn read(file: Option<&Path>) -> Result<Secret<String>, NoKey> {
    let Some(path) = file else {
        return Err("no key is configured: CLAUDE_TOOLS_DEEPSEEK_KEY_FILE is not set".to_owned());
    };
    let refused = |why: String| format!("the file of CLAUDE_TOOLS_DEEPSEEK_KEY_FILE {why}");
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|error| refused(format!("can't be opened: {}", error.kind())))?;
    let found = file.metadata().map_err(|error| refused(format!("can't be looked at: {}", error.kind())))?;
    if !found.is_file() {
        return Err(refused("is not a regular file".to_owned()));
    }
    if found.uid() != nix::unistd::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(refused("is not its owner's alone; run chmod 600 on it".to_owned()));
    }
    let mut text = String::new();
    let read = file.take(KEY_BYTES).read_to_string(&mut text);
    read.map_err(|error| refused(format!("can't be read: {}", error.kind())))?;
    let key = text.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused("does not hold a key of visible characters in one line".to_owned()));
    }
    Ok(Secret::new(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn only_a_private_file_with_one_line_is_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(read(None).is_err() && read(Some(&path)).is_err() && read(Some(folder.path())).is_err());
        fs::write(&path, "sk-CANARY\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(Some(&path)).unwrap().expose(), "sk-CANARY");
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let why = read(Some(&path)).unwrap_err();
            assert!(why.contains("chmod 600") && !why.contains("CANARY"), "{why}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", " \n", "sk-CANARY two", "sk-CANARY\nb"] {
            fs::write(&path, text).unwrap();
            assert!(!read(Some(&path)).unwrap_err().contains("CANARY"));
        }
    }
}
