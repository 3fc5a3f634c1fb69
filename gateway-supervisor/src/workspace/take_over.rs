//! How the owner takes over the work that a worktree holds, as commands for a shell.

use std::path::Path;

use protocol::workspace::{Workspace, WorkspaceKind};

/// The commands, in their order; none where there is no worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TakeOver {
    /// Commits what stands in the worktree.
    pub(crate) commit: String,
    /// Brings the branch into the source.
    pub(crate) merge: String,
}

impl TakeOver {
    /// How the work of this workspace is taken over.
    pub(crate) fn of(workspace: &Workspace) -> Option<Self> {
        let WorkspaceKind::Worktree { branch, .. } = &workspace.kind else { return None };
        let (root, source, branch) = (path(&workspace.root), path(&workspace.source), quoted(branch));
        Some(Self {
            commit: format!("git -C {root} add -A && git -C {root} commit"),
            merge: format!("git -C {source} merge {branch}"),
        })
    }
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A word for a shell, in quotes only where it needs them. What a terminal would obey is written as an escape.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if !text.chars().any(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = "$'".to_owned();
    for c in text.chars() {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    word.push_str(&format!("\\{byte:03o}"));
                }
            }
            c => word.push(c),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for (shell, words) in [
            ("sh", &["/a/b-c.d", "", "two words", "it's", "'", "''", "$HOME `x` \"y\" \\ ! * ~", "ä€"][..]),
            ("bash", &["a\nb", "it's\t\\n", "end\n", "\u{85}7"][..]),
        ] {
            for word in words {
                let script = format!("printf %s {}", quoted(word));
                let said = Command::new(shell).args(["-c", &script]).output().unwrap().stdout;
                assert_eq!(String::from_utf8(said).unwrap(), *word, "{script}");
                assert!(!script.chars().any(char::is_control));
            }
        }
        assert_eq!(quoted("/usual/path"), "/usual/path");
    }
}
