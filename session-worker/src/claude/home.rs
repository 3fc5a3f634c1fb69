//! Claude Code's private home below the session's folder: everything it writes, and everything it reads of its own.
//!
//! Invariant: folders are 0700 and files 0600, whatever the umask.
//! Invariant: its working folder is always the same and empty: no project's instructions, hooks or servers are ever found from
//! it, and a session is found again by it.
#![expect(clippy::disallowed_methods, reason = "clears what a dead Claude Code left in its own home")]

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, BufReader, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use protocol::{id::ClaudeSessionId, secret::Token};
use serde_json::json;

use super::endpoint::ModelEndpoint;

/// What a transcript of a session that can be resumed holds: a prompt.
const PROMPTED: &[u8] = b"\"type\":\"user\"";

/// How long one tool call may take, in milliseconds: the longest command, and the patience of whoever must acknowledge it.
const TOOL_CALL_MS: u64 = 24 * 3600 * 1000;

/// The folders.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    root: PathBuf,
}

/// How Claude Code has to be started to go on where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// It has written nothing that it could resume: it takes the session's id as a new one.
    New,
    /// It resumes its session.
    Resume,
}

impl Home {
    /// Makes the folders below the session's own.
    ///
    /// # Errors
    /// Where a folder can't be made.
    pub(crate) fn prepare(session_directory: &Path) -> io::Result<Self> {
        let home = Self { root: session_directory.join("claude") };
        for folder in [home.root.clone(), home.home(), home.config(), home.temporary(), home.work()] {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        }
        Ok(home)
    }

    /// The folder that holds all the others: the only one that Claude Code can write.
    pub(crate) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// `HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// `CLAUDE_CONFIG_DIR`.
    pub(crate) fn config(&self) -> PathBuf {
        self.root.join("config")
    }

    /// `TMPDIR`.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// The working folder.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Writes the file that names the gateway's tools and the secret that opens them, and gives its path.
    ///
    /// # Errors
    /// Where it can't be written.
    pub(crate) fn write_mcp_config(&self, endpoint: &ModelEndpoint, secret: &Token) -> io::Result<PathBuf> {
        let path = self.root.join("mcp.json");
        let server = json!({
            "type": "http",
            "url": format!("{}/mcp", endpoint.url()),
            "headers": {"Authorization": format!("Bearer {}", secret.expose())},
            "timeout": TOOL_CALL_MS,
        });
        let config = json!({"mcpServers": {"gateway": server}}).to_string();
        remove_if_there(&path)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(config.as_bytes())?;
        Ok(path)
    }

    /// How to start. A stub that Claude Code can neither resume nor write over is removed.
    ///
    /// # Errors
    /// Where its own folder can't be read.
    pub(crate) fn start(&self, session_id: ClaudeSessionId) -> io::Result<Start> {
        let projects = self.config().join("projects");
        let folders = match fs::read_dir(&projects) {
            Ok(folders) => folders,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Start::New),
            Err(error) => return Err(error),
        };
        let mut start = Start::New;
        for folder in folders {
            let transcript = folder?.path().join(format!("{session_id}.jsonl"));
            match File::open(&transcript) {
                Ok(file) if holds_prompt(&file)? => start = Start::Resume,
                Ok(_) => {
                    tracing::info!("a transcript without a prompt is removed");
                    remove_if_there(&transcript)?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(start)
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether a transcript holds a prompt. It is read piece by piece, because it holds the whole history.
fn holds_prompt(transcript: &File) -> io::Result<bool> {
    let mut reader = BufReader::new(transcript);
    let mut window = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        let got = reader.read(&mut piece)?;
        if got == 0 {
            return Ok(false);
        }
        window.extend_from_slice(piece.get(..got).unwrap_or_default());
        if memchr::memmem::find(&window, PROMPTED).is_some() {
            return Ok(true);
        }
        // What could be the beginning of the words stays for the next piece.
        let keep = window.len().min(PROMPTED.len() - 1);
        window.drain(..window.len() - keep);
    }
}

#[cfg(test)]
mod tests {
    use protocol::secret::Secret;

    use super::*;

    fn transcript(home: &Home, id: ClaudeSessionId, content: &str) -> PathBuf {
        let folder = home.config().join("projects/-some-folder");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{id}.jsonl"));
        fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn what_can_be_resumed_is_resumed_and_a_stub_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::prepare(folder.path()).unwrap();
        let id = ClaudeSessionId::mint();
        assert_eq!(home.start(id).unwrap(), Start::New);
        let stub = transcript(&home, id, "{\"type\":\"queue-operation\",\"operation\":\"enqueue\"}\n");
        assert_eq!(home.start(id).unwrap(), Start::New);
        assert!(!stub.exists());
        let other = transcript(&home, ClaudeSessionId::mint(), "{}");
        // The words stand across the border of two pieces.
        let long = format!("{}{{\"type\":\"user\"}}\n", " ".repeat(64 * 1024 - 5));
        let whole = transcript(&home, id, &long);
        assert_eq!(home.start(id).unwrap(), Start::Resume);
        assert!(whole.exists() && other.exists());
    }

    #[test]
    fn everything_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::prepare(folder.path()).unwrap();
        let endpoint = ModelEndpoint::verify("http://127.0.0.1:9").unwrap();
        let secret = Secret::new("abc".to_owned());
        for _ in 0..2 {
            let config = home.write_mcp_config(&endpoint, &secret).unwrap();
            assert_eq!(fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
            let text = fs::read_to_string(config).unwrap();
            assert!(text.contains("http://127.0.0.1:9/mcp") && text.contains("Bearer abc"));
        }
        for folder in [home.home(), home.config(), home.temporary(), home.work()] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
