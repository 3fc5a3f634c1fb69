//! What a reply of the matrix does: its calls, and for each of them how its effect is seen.
//!
//! Invariant: an effect that happened twice is seen as something else than one that happened once.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tests::tree::snapshot;

/// A reply, and the profile of the session that carries it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scenario {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// The session's profile.
    pub(crate) profile: &'static str,
    /// What it calls.
    pub(crate) calls: &'static [Act],
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// A change of a file that is there; done twice it would show, or fail.
    Edit,
    /// A new file in directories that are not there.
    Write,
    /// Another content for a file that is there.
    Overwrite,
    /// A new cell; done twice it would show.
    Notebook,
    /// A command that adds a line to a file in the scratch.
    Run,
    /// Reads, which may run beside each other.
    Read,
    /// The same.
    Search,
}

/// What is there of an act's effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// All of it, once.
    Once,
    /// Anything else.
    Other(String),
}

/// A folder that one cell of the matrix works in.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// Below the session's root.
    pub(crate) folder: PathBuf,
    /// The session's scratch.
    pub(crate) scratch: PathBuf,
    /// Its name.
    pub(crate) name: String,
}

/// Content by path, as [`snapshot`] gives it.
pub(crate) type Tree = BTreeMap<String, String>;

impl Act {
    /// The call.
    pub(crate) fn call(self, ground: &Ground) -> (&'static str, Value) {
        let at = |name: &str| ground.folder.join(name);
        match self {
            Self::Edit => {
                ("Edit", json!({"file_path": at("a.txt"), "old_string": "one", "new_string": "one one"}))
            }
            Self::Write => ("Write", json!({"file_path": at("new/deep/b.txt"), "content": "new"})),
            Self::Overwrite => ("Write", json!({"file_path": at("o.txt"), "content": "another"})),
            Self::Notebook => (
                "NotebookEdit",
                json!({
                    "notebook_path": at("n.ipynb"), "cell_id": "a", "cell_type": "raw", "new_source": "y",
                    "edit_mode": "insert",
                }),
            ),
            Self::Run => {
                let script = format!("echo ran >> \"$TMPDIR/{}\"", ground.name);
                ("RunCommand", json!({"argv": ["sh", "-c", script]}))
            }
            Self::Read => ("Read", json!({"file_path": at("r.txt")})),
            Self::Search => ("SearchText", json!({"query": "read", "path": ground.folder})),
        }
    }

    /// The entries that its effect changes or makes begin with this.
    fn owns(self) -> Option<&'static str> {
        match self {
            Self::Edit => Some("a.txt"),
            Self::Write => Some("new"),
            Self::Overwrite => Some("o.txt"),
            Self::Notebook => Some("n.ipynb"),
            Self::Run | Self::Read | Self::Search => None,
        }
    }

    /// Whether what it does can be seen at all.
    pub(crate) fn has_effect(self) -> bool {
        !matches!(self, Self::Read | Self::Search)
    }
}

impl Ground {
    /// Makes the files that a reply works on.
    pub(crate) fn make(root: &Path, scratch: &Path, name: String) -> Self {
        let folder = root.join(&name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.txt"), "one\r\ntwo").unwrap();
        fs::write(folder.join("o.txt"), "before\n").unwrap();
        fs::write(folder.join("r.txt"), "read\n").unwrap();
        let cell = json!({"cell_type": "raw", "id": "a", "metadata": {}, "source": "x"});
        let notebook = json!({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
        fs::write(folder.join("n.ipynb"), notebook.to_string()).unwrap();
        Self { folder, scratch: scratch.to_owned(), name }
    }

    /// What must have been seen before it is changed.
    pub(crate) fn reads(&self) -> [(&'static str, Value); 3] {
        ["a.txt", "o.txt", "n.ipynb"].map(|name| ("Read", json!({"file_path": self.folder.join(name)})))
    }

    pub(crate) fn tree(&self) -> Tree {
        snapshot(&self.folder)
    }

    /// What is there of an act's effect, beside what was there `before` and what is there `after` it is done once.
    pub(crate) fn effect(&self, act: Act, (before, after): (&Tree, &Tree)) -> Effect {
        let Some(owned) = act.owns() else { return self.ran(act) };
        let part = |tree: &Tree| -> Tree {
            let own = tree.iter().filter(|(path, _)| Path::new(path).starts_with(owned));
            own.map(|(path, content)| (path.clone(), content.clone())).collect()
        };
        let now = part(&self.tree());
        if now == part(before) {
            Effect::None
        } else if now == part(after) {
            Effect::Once
        } else {
            Effect::Other(format!("{now:?}"))
        }
    }

    fn ran(&self, act: Act) -> Effect {
        if act != Act::Run {
            return Effect::None;
        }
        match fs::read_to_string(self.scratch.join("tmp").join(&self.name)) {
            Err(_) => Effect::None,
            Ok(text) if text == "ran\n" => Effect::Once,
            Ok(text) => Effect::Other(text),
        }
    }

    /// Entries that are of no act and were not there before: staged files that nobody cleared up.
    pub(crate) fn strays(&self, (before, after): (&Tree, &Tree)) -> Vec<String> {
        let known = |path: &String| before.contains_key(path) || after.contains_key(path);
        self.tree().into_keys().filter(|path| !known(path)).collect()
    }
}

/// Makes a folder that a worktree can be made from.
pub(crate) fn make_repository(source: &Path) {
    fs::write(source.join("kept"), "kept").unwrap();
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(arguments);
        assert!(git.current_dir(source).env("HOME", source).status().unwrap().success());
    }
}
