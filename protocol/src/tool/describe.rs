//! The tools' input schemas and descriptions, written for the model that reads them.
//!
//! Invariant: plain schemas: no `$ref`, no number formats, no nulls, every field described.

use serde_json::Value;

use super::{
    ToolName,
    input::{
        Edit, FindFiles, NotebookEdit, Read, RunCommand, SearchText, SubagentGet, SubagentStart,
        SubagentStop, Write,
    },
};
use crate::schema::plain;

pub(super) fn input_schema(tool: ToolName) -> Value {
    match tool {
        ToolName::Read => plain::<Read>(),
        ToolName::FindFiles => plain::<FindFiles>(),
        ToolName::SearchText => plain::<SearchText>(),
        ToolName::RunCommand => plain::<RunCommand>(),
        ToolName::Edit => plain::<Edit>(),
        ToolName::Write => plain::<Write>(),
        ToolName::NotebookEdit => plain::<NotebookEdit>(),
        ToolName::SubagentStart => plain::<SubagentStart>(),
        ToolName::SubagentGet => plain::<SubagentGet>(),
        ToolName::SubagentStop => plain::<SubagentStop>(),
    }
}

pub(super) const fn description(tool: ToolName) -> &'static str {
    match tool {
        ToolName::Read => {
            "Reads a UTF-8 text file: numbered lines, total lines, SHA-256 of the whole file, at most 64 KiB of it; says what is left and how to read on with offset and limit."
        }
        ToolName::FindFiles => {
            "Lists files below a directory, sorted, without following symbolic links; .git is left out. At most 64 KiB; says what was cut."
        }
        ToolName::SearchText => {
            "Finds a literal text (never a pattern) in UTF-8 files below a path: path:line:column and the line, sorted. .git is left out. At most 64 KiB; says what was cut."
        }
        ToolName::RunCommand => {
            "Runs a program with exact arguments (no shell) behind walls: it reads the file system, writes only a private scratch, has no network. Shows exit code, stdout and stderr, head and tail if long."
        }
        ToolName::Edit => "Replaces an exact text in a file that was read. Every other byte stays as it is.",
        ToolName::Write => {
            "Writes a whole file, making missing parent directories; an existing file must have been read."
        }
        ToolName::NotebookEdit => {
            "Replaces, inserts or deletes one cell of a Jupyter notebook by cell id. Every other cell stays byte for byte. Executes nothing."
        }
        ToolName::SubagentStart => {
            "Delegates a task to one DeepSeek sub-session in the same worktree. Must be the only call of its reply. While it is active this session only reads."
        }
        ToolName::SubagentGet => "Shows how a delegated task stands.",
        ToolName::SubagentStop => "Ends a delegated task.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_plain_closed_and_described() {
        for tool in ToolName::ALL {
            let schema = input_schema(tool);
            let text = schema.to_string();
            for banned in ["$ref", "$defs", "uint", "\"null\"", "null"] {
                assert!(!text.contains(banned), "{tool:?} {banned}: {text}");
            }
            assert_eq!(schema["additionalProperties"], false, "{tool:?}");
            for (name, field) in schema["properties"].as_object().unwrap() {
                assert!(
                    field["description"].is_string() && field["type"].is_string(),
                    "{tool:?} {name}: {field}"
                );
            }
        }
    }

    #[test]
    fn schemas_are_frozen() {
        let all: serde_json::Map<_, _> =
            ToolName::ALL.into_iter().map(|t| (t.name().to_owned(), input_schema(t))).collect();
        insta::assert_json_snapshot!(all);
    }
}
