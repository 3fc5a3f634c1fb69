//! Other servers' edits, by their own tools over their own stdio. None of them syncs what it writes.
//!
//! `scripts/bench` fetches them where `PEERS=1` asks for it; what is not there is said to be missing.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::binaries;

use crate::{LARGE_BYTES, SMALL_BYTES, edit, numbers::row, sample, text};

const SMALL: usize = 100;
const LARGE: usize = 10;

/// Longer than any of them takes for 5 MB.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tool and its input.
type Call = (&'static str, Value);

/// A server and how it edits.
struct Peer {
    name: &'static str,
    command: Vec<PathBuf>,
    /// What it demands before an edit.
    read: Option<fn(&Path) -> Call>,
    edit: fn(&Path, &str, &str) -> Call,
}

/// Prints a line for each peer and size.
pub(crate) fn compare(folder: &Path) {
    if env::var_os("PEERS").is_none_or(|asked| asked != "1") {
        return println!("(PEERS=1 compares with other servers; it fetches them once)");
    }
    for peer in peers(folder) {
        for (size, bytes, count) in [("4 KiB", SMALL_BYTES, SMALL), ("5 MB", LARGE_BYTES, LARGE)] {
            let file = folder.join("peer.txt");
            fs::write(&file, text(bytes)).unwrap();
            let name = format!("{size}: {}", peer.name);
            match peer.edits(&file, count) {
                Ok(taken) => row(&name, &sample(taken), None),
                Err(why) => println!("{name:<58} not taken: {why}"),
            }
        }
    }
}

fn peers(folder: &Path) -> Vec<Peer> {
    let fetched = binaries::repository().join("target/peers");
    let npm = |program: &str| fetched.join("npm/node_modules/.bin").join(program);
    vec![
        Peer {
            name: "claude mcp serve, Edit",
            command: vec![binaries::claude_code().to_owned(), "mcp".into(), "serve".into()],
            read: Some(|file| ("Read", json!({"file_path": file, "limit": 10}))),
            edit: |file, old, new| ("Edit", json!({"file_path": file, "old_string": old, "new_string": new})),
        },
        Peer {
            name: "server-filesystem, edit_file",
            command: vec![npm("mcp-server-filesystem"), folder.to_owned()],
            read: None,
            edit: |file, old, new| {
                ("edit_file", json!({"path": file, "edits": [{"oldText": old, "newText": new}]}))
            },
        },
        Peer {
            name: "desktop-commander, edit_block",
            command: vec![npm("desktop-commander")],
            read: None,
            edit: |file, old, new| {
                ("edit_block", json!({"file_path": file, "old_string": old, "new_string": new}))
            },
        },
        Peer {
            name: "coding-tools-mcp, apply_patch",
            command: vec![
                fetched.join("python/bin/coding-tools-mcp"),
                "--stdio".into(),
                "--workspace".into(),
                folder.to_owned(),
            ],
            read: None,
            edit: |file, old, new| {
                let name = file.file_name().unwrap_or_default().display();
                let patch = format!(
                    "*** Begin Patch\n*** Update File: {name}\n@@\n-{old} the edits\n+{new} the edits\n*** End Patch\n"
                );
                ("apply_patch", json!({"patch": patch}))
            },
        },
    ]
}

impl Peer {
    fn edits(&self, file: &Path, count: usize) -> Result<Vec<Duration>, String> {
        let home = tempfile::tempdir().unwrap();
        let mut server = Server::start(self, home.path(), file)?;
        if let Some(read) = self.read {
            let (tool, input) = read(file);
            server.call(tool, &input)?;
        }
        (0..count)
            .map(|number| {
                let (old, new) = edit(number);
                let (tool, input) = (self.edit)(file, &old, &new);
                let taken = server.call(tool, &input)?;
                let done = fs::read_to_string(file).is_ok_and(|now| now.contains(&new));
                if done { Ok(taken) } else { Err("the file is not as it should be".to_owned()) }
            })
            .collect()
    }
}

/// A running server.
struct Server {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<Value>,
}

impl Server {
    fn start(peer: &Peer, home: &Path, file: &Path) -> Result<Self, String> {
        let (program, arguments) = peer.command.split_first().expect("a program");
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .current_dir(file.parent().expect("a folder"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} can't be started: {error}", program.display()))?;
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Ok(message) = serde_json::from_str::<Value>(&line)
                    && sender.send(message).is_err()
                {
                    return;
                }
            }
        });
        let mut server = Self { child, stdin, lines };
        server.ask("initialize", &json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
        }))?;
        server.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }

    /// A tool's time, from its call to its result.
    fn call(&mut self, tool: &str, input: &Value) -> Result<Duration, String> {
        let at = Instant::now();
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": input}))?;
        let taken = at.elapsed();
        if result["isError"] == true {
            let said = result["content"][0]["text"].as_str().unwrap_or_default();
            return Err(format!("{tool} says: {}", said.chars().take(120).collect::<String>()));
        }
        Ok(taken)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.say(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))?;
        loop {
            let mut message =
                self.lines.recv_timeout(PATIENCE).map_err(|_| format!("no answer to {method}"))?;
            if message["id"] == 1 && message.get("method").is_none() {
                return if message["error"].is_null() {
                    Ok(message["result"].take())
                } else {
                    Err(message["error"]["message"].as_str().unwrap_or("an error").to_owned())
                };
            }
        }
    }

    fn say(&mut self, message: &Value) -> Result<(), String> {
        writeln!(self.stdin, "{message}").map_err(|error| format!("it ended: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
