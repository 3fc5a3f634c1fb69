//! The inputs of the tools, as typed values with their bounds checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{ToolInput, ToolName};
use crate::{
    canonical::respelled,
    limits::{COMMAND_MAX, PROMPT_BYTES},
    subagent::Tier,
};

/// Input of `Read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// Absolute path of a regular UTF-8 text file.
    pub file_path: String,
    /// First line to show, counted from 1 (default 1).
    #[serde(default)]
    pub offset: Option<u64>,
    /// How many lines to show at most (default: as many as fit 64 KiB).
    #[serde(default)]
    pub limit: Option<u64>,
}

/// What `FindFiles` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Regular files.
    #[default]
    File,
    /// Directories.
    Directory,
    /// Symbolic links.
    Symlink,
    /// Everything.
    Any,
}

/// Input of `FindFiles`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindFiles {
    /// Absolute directory to list (default: the working directory).
    #[serde(default)]
    pub directory: Option<String>,
    /// Only names that match, such as `*.rs` or `src/**/test_*.py`; relative to the directory.
    #[serde(default)]
    pub glob: Option<String>,
    /// `file` (default), `directory`, `symlink` or `any`.
    #[serde(default)]
    pub kind: Option<FileKind>,
    /// How many directories deep (1: only the directory itself).
    #[serde(default)]
    pub max_depth: Option<u64>,
    /// How many entries at most, 1 to 10000 (default 1000).
    #[serde(default)]
    pub limit: Option<u64>,
    /// Leave out what `.gitignore` names (default false).
    #[serde(default)]
    pub respect_gitignore: Option<bool>,
}

/// Input of `SearchText`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchText {
    /// The literal text to find: never a pattern, one line.
    pub query: String,
    /// Absolute file or directory to search (default: the working directory).
    #[serde(default)]
    pub path: Option<String>,
    /// Ignore case (default false).
    #[serde(default)]
    pub ignore_case: Option<bool>,
    /// Lines to show before and after each hit, 0 to 20 (default 0).
    #[serde(default)]
    pub context: Option<u64>,
    /// Only files whose names match, such as `*.rs`; relative to the path.
    #[serde(default)]
    pub glob: Option<String>,
    /// How many hits to show at most, 1 to 2000 (default 200).
    #[serde(default)]
    pub limit: Option<u64>,
    /// Count every hit, also those that are not shown (default false: stop when enough is found).
    #[serde(default)]
    pub count_all: Option<bool>,
    /// Leave out what `.gitignore` names (default false).
    #[serde(default)]
    pub respect_gitignore: Option<bool>,
}

/// Input of `RunCommand`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCommand {
    /// The program and its exact arguments; no shell is added.
    pub argv: Vec<String>,
    /// Absolute directory to run it in (default: the working directory).
    #[serde(default)]
    pub cwd: Option<String>,
    /// Seconds until it is ended, 1 to 3600 (default 120).
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
    /// Text on its standard input (default: empty).
    #[serde(default)]
    pub stdin: Option<String>,
}

/// Input of `Edit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Absolute path of the file, which must have been read.
    pub file_path: String,
    /// The exact text to replace.
    pub old_string: String,
    /// The text that takes its place.
    pub new_string: String,
    /// Replace every occurrence (default false: there must be exactly one).
    #[serde(default)]
    pub replace_all: Option<bool>,
}

/// Input of `Write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Absolute path of the file; an existing one must have been read.
    pub file_path: String,
    /// Its whole new content.
    pub content: String,
}

/// The kind of a notebook's cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellType {
    /// Code.
    Code,
    /// Markdown.
    Markdown,
    /// Raw.
    Raw,
}

/// What `NotebookEdit` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EditMode {
    /// Replaces the source of the cell.
    Replace,
    /// Inserts a cell after the cell, or at the top.
    Insert,
    /// Deletes the cell.
    Delete,
}

/// Input of `NotebookEdit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotebookEdit {
    /// Absolute path of the notebook, which must have been read.
    pub notebook_path: String,
    /// The cell; with `insert` the cell before the new one (left out: at the top).
    #[serde(default)]
    pub cell_id: Option<String>,
    /// The cell's new source (`insert` needs it; left out: `replace` keeps it; not with `delete`).
    #[serde(default)]
    pub new_source: Option<String>,
    /// Kind of the cell (left out: `insert` makes a code cell, `replace` keeps it).
    #[serde(default)]
    pub cell_type: Option<CellType>,
    /// `replace`, `insert` or `delete`.
    pub edit_mode: EditMode,
}

/// Input of `deepseek_subagent_start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubagentStart {
    /// What the sub-session is to do.
    pub task: String,
    /// `sonnet`, `opus` or `fable`.
    #[schemars(with = "String")]
    pub model: Tier,
}

/// Input of `deepseek_subagent_get`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubagentGet {
    /// The sub-session.
    pub id: String,
}

/// Input of `deepseek_subagent_stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubagentStop {
    /// The sub-session.
    pub id: String,
}

pub(super) fn parse(tool: ToolName, value: &Value) -> Result<ToolInput, String> {
    Ok(match tool {
        ToolName::Read => ToolInput::Read(read(typed(value)?)?),
        ToolName::FindFiles => ToolInput::FindFiles(find_files(typed(value)?)?),
        ToolName::SearchText => ToolInput::SearchText(search_text(typed(value)?)?),
        ToolName::RunCommand => ToolInput::RunCommand(run_command(typed(value)?)?),
        ToolName::Edit => ToolInput::Edit(edit(typed(value)?)?),
        ToolName::Write => ToolInput::Write(write(typed(value)?)?),
        ToolName::NotebookEdit => ToolInput::NotebookEdit(notebook_edit(typed(value)?)?),
        ToolName::SubagentStart => ToolInput::SubagentStart(subagent_start(typed(value)?)?),
        ToolName::SubagentGet => ToolInput::SubagentGet(typed(value)?),
        ToolName::SubagentStop => ToolInput::SubagentStop(typed(value)?),
    })
}

/// Reads the fields one by one first, so that the error names the one that is wrong.
fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    let Value::Object(fields) = value else { return Err("expected an object with named fields".to_owned()) };
    // An optional field that a client fills with null is a field left out, and `1.0` is an integer, as in JSON Schema.
    let given: serde_json::Map<_, _> =
        fields.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), respelled(v))).collect();
    match serde_json::from_value(Value::Object(given.clone())) {
        Ok(input) => Ok(input),
        Err(error) => Err(blame::<T>(&given, &error)),
    }
}

/// serde does not say in which field a wrong type stands: the one whose removal changes the error is it. What was removed
/// stays away, for two fields may be wrong in the same words.
fn blame<T: DeserializeOwned>(given: &serde_json::Map<String, Value>, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let mut fewer = given.clone();
    for name in given.keys() {
        fewer.remove(name);
        match serde_json::from_value::<T>(Value::Object(fewer.clone())).map_err(|e| e.to_string()) {
            Err(same) if same == text => {}
            _ if text.contains(&format!("`{name}`")) => return text,
            _ => return format!("field `{name}`: {text}"),
        }
    }
    text
}

fn absolute(field: &str, path: &str) -> Result<(), String> {
    if path.contains('\0') {
        return Err(format!("field `{field}`: a path has no NUL character"));
    }
    if path.starts_with('/') {
        Ok(())
    } else {
        Err(format!("field `{field}`: expected an absolute path, got {path:?}"))
    }
}

fn within(field: &str, value: Option<u64>, (least, most): (u64, u64)) -> Result<(), String> {
    match value {
        Some(n) if n < least || n > most => {
            Err(format!("field `{field}`: expected {least} to {most}, got {n}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn read(input: Read) -> Result<Read, String> {
    absolute("file_path", &input.file_path)?;
    within("offset", input.offset, (1, u64::MAX))?;
    within("limit", input.limit, (1, u64::MAX))?;
    Ok(input)
}

fn find_files(input: FindFiles) -> Result<FindFiles, String> {
    if let Some(directory) = &input.directory {
        absolute("directory", directory)?;
    }
    within("max_depth", input.max_depth, (1, 1_000))?;
    within("limit", input.limit, (1, 10_000))?;
    Ok(input)
}

fn search_text(input: SearchText) -> Result<SearchText, String> {
    if let Some(path) = &input.path {
        absolute("path", path)?;
    }
    if input.query.is_empty() {
        return Err("field `query`: expected a text to find, got an empty one".to_owned());
    }
    if input.query.contains(['\n', '\r']) {
        return Err("field `query`: expected one line; search for one line of the text at a time".to_owned());
    }
    within("context", input.context, (0, 20))?;
    within("limit", input.limit, (1, 2_000))?;
    Ok(input)
}

fn run_command(input: RunCommand) -> Result<RunCommand, String> {
    match input.argv.first() {
        None => {
            return Err("field `argv`: expected the program and its arguments, got an empty list".to_owned());
        }
        Some(program) if program.is_empty() => {
            return Err("field `argv`: the program's name is empty".to_owned());
        }
        Some(_) => {}
    }
    if input.argv.iter().any(|word| word.contains('\0')) {
        return Err("field `argv`: an argument has no NUL character".to_owned());
    }
    if let Some(cwd) = &input.cwd {
        absolute("cwd", cwd)?;
    }
    within("timeout_seconds", input.timeout_seconds, (1, COMMAND_MAX.as_secs()))?;
    Ok(input)
}

fn edit(input: Edit) -> Result<Edit, String> {
    absolute("file_path", &input.file_path)?;
    if input.old_string.is_empty() {
        return Err(
            "field `old_string`: expected the text to replace, got an empty one; Write makes a new file"
                .to_owned(),
        );
    }
    if input.old_string == input.new_string {
        return Err("field `new_string`: it is the same as `old_string`, so nothing would change".to_owned());
    }
    Ok(input)
}

fn write(input: Write) -> Result<Write, String> {
    absolute("file_path", &input.file_path)?;
    Ok(input)
}

fn notebook_edit(input: NotebookEdit) -> Result<NotebookEdit, String> {
    absolute("notebook_path", &input.notebook_path)?;
    match input.edit_mode {
        EditMode::Replace if input.cell_id.is_none() => {
            Err("field `cell_id`: `replace` needs the cell".to_owned())
        }
        EditMode::Delete if input.cell_id.is_none() => {
            Err("field `cell_id`: `delete` needs the cell".to_owned())
        }
        EditMode::Delete if input.new_source.as_ref().is_some_and(|source| !source.is_empty()) => {
            Err("field `new_source`: `delete` takes none".to_owned())
        }
        EditMode::Replace if input.new_source.is_none() && input.cell_type.is_none() => {
            Err("field `new_source`: `replace` needs it, or a `cell_type`".to_owned())
        }
        EditMode::Insert if input.new_source.is_none() => {
            Err("field `new_source`: expected the cell's source".to_owned())
        }
        EditMode::Replace | EditMode::Insert | EditMode::Delete => Ok(input),
    }
}

fn subagent_start(input: SubagentStart) -> Result<SubagentStart, String> {
    if input.task.trim().is_empty() || input.task.len() > PROMPT_BYTES {
        return Err(format!("field `task`: expected 1 to {PROMPT_BYTES} bytes that are not blank"));
    }
    Ok(input)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(tool: ToolName, value: &Value) -> String {
        ToolInput::parse(tool, value).unwrap_err().reason
    }

    #[test]
    fn the_wrong_field_is_named() {
        for (tool, value, field) in [
            (ToolName::Read, json!({}), "file_path"),
            (ToolName::Read, json!({"file_path": 5}), "file_path"),
            (ToolName::Read, json!({"file_path": "a"}), "file_path"),
            (ToolName::Read, json!({"file_path": "/a", "offset": -1}), "offset"),
            (ToolName::Read, json!({"file_path": "/a", "offset": 0}), "offset"),
            (ToolName::Read, json!({"file_path": "/a", "limit": "5"}), "limit"),
            (ToolName::Read, json!({"file_path": "/a", "mode": 1}), "mode"),
            (ToolName::FindFiles, json!({"kind": "pipe"}), "kind"),
            (ToolName::SearchText, json!({"query": ""}), "query"),
            (ToolName::SearchText, json!({"query": "a\nb"}), "query"),
            (ToolName::SearchText, json!({"query": "a", "context": 99}), "context"),
            (ToolName::RunCommand, json!({"argv": []}), "argv"),
            (ToolName::RunCommand, json!({"argv": "ls"}), "argv"),
            (ToolName::RunCommand, json!({"argv": ["ls"], "timeout_seconds": 3601}), "timeout_seconds"),
            (ToolName::NotebookEdit, json!({"notebook_path": "/a", "edit_mode": "replace"}), "cell_id"),
            (ToolName::SubagentStart, json!({"task": "x", "model": "gpt"}), "model"),
        ] {
            let reason = reason(tool, &value);
            assert!(reason.contains(field), "{tool:?} {value}: {reason}");
        }
        assert!(reason(ToolName::Read, &json!([1])).contains("object"));
    }

    #[test]
    fn of_two_fields_that_are_wrong_in_the_same_words_one_is_named() {
        let wrong = json!({"file_path": "/a", "offset": 1.5, "limit": 1.5});
        let text = reason(ToolName::Read, &wrong);
        assert!(text.contains("`offset`") || text.contains("`limit`"), "{text}");
    }

    #[test]
    fn a_whole_number_is_an_integer_however_it_is_spelled() {
        for (tool, value) in [
            (ToolName::Read, r#"{"file_path": "/a", "offset": 2.0, "limit": 1e2}"#),
            (ToolName::FindFiles, r#"{"max_depth": 3.0, "limit": 1.0}"#),
            (ToolName::SearchText, r#"{"query": "a", "context": -0.0, "limit": 5.0}"#),
            (ToolName::RunCommand, r#"{"argv": ["a"], "timeout_seconds": 60.0}"#),
        ] {
            let value = serde_json::from_str(value).unwrap();
            assert!(ToolInput::parse(tool, &value).is_ok(), "{tool:?} {value}");
        }
        assert!(reason(ToolName::Read, &json!({"file_path": "/a", "offset": 1.5})).contains("offset"));
        assert!(reason(ToolName::Read, &json!({"file_path": "/a", "limit": 1e300})).contains("limit"));
    }

    #[test]
    fn a_notebook_change_needs_only_what_its_mode_can_not_do_without() {
        let notebook = |rest: Value| {
            let mut value = json!({"notebook_path": "/a"});
            value.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            ToolInput::parse(ToolName::NotebookEdit, &value)
        };
        for taken in [
            json!({"edit_mode": "insert", "new_source": "x"}),
            json!({"edit_mode": "insert", "new_source": "", "cell_id": "a", "cell_type": "raw"}),
            json!({"edit_mode": "replace", "new_source": "x", "cell_id": "a"}),
            json!({"edit_mode": "replace", "cell_type": "code", "cell_id": "a"}),
            json!({"edit_mode": "delete", "cell_id": "a"}),
            json!({"edit_mode": "delete", "cell_id": "a", "new_source": ""}),
        ] {
            assert!(notebook(taken.clone()).is_ok(), "{taken}");
        }
        for (refused, field) in [
            (json!({"edit_mode": "insert"}), "new_source"),
            (json!({"edit_mode": "replace", "cell_id": "a"}), "new_source"),
            (json!({"edit_mode": "replace", "new_source": "x"}), "cell_id"),
            (json!({"edit_mode": "delete"}), "cell_id"),
            (json!({"edit_mode": "delete", "cell_id": "a", "new_source": "x"}), "new_source"),
        ] {
            assert!(notebook(refused).unwrap_err().reason.contains(field), "{field}");
        }
    }

    #[test]
    fn null_is_a_field_left_out() {
        let parsed = ToolInput::parse(ToolName::Read, &json!({"file_path": "/a", "offset": null}));
        assert_eq!(parsed, Ok(ToolInput::Read(Read { file_path: "/a".into(), offset: None, limit: None })));
    }
}
