//! `config.toml`: the same settings as the environment, in lower case, flat.

use std::{collections::BTreeMap, fs, io, path::Path};

use super::ConfigError;

/// The key that holds a list of tables, or the JSON that the environment would hold, as a text.
const SKILLS: &str = "claude_tools_native_skill_allowlist_json";

/// What the file may hold. The state directory itself can't stand in a file inside it.
const KNOWN: [&str; 17] = [
    "claude_bin",
    "claude_tools_listen",
    "claude_tools_lease_seconds",
    "claude_tools_work_dir",
    "claude_tools_mcp_response",
    "claude_tools_mcp_text",
    "claude_tools_turn_kib",
    "claude_tools_protected",
    SKILLS,
    "claude_tools_deepseek_bin",
    "claude_tools_deepseek_url",
    "claude_tools_deepseek_key_file",
    "claude_tools_deepseek_ca_file",
    "claude_tools_deepseek_flash_model",
    "claude_tools_deepseek_pro_model",
    "claude_tools_deepseek_seconds",
    "claude_tools_deepseek_turns",
];

/// The key that holds several paths.
const LIST: &str = "claude_tools_protected";

/// Larger than any honest settings file.
const FILE_BYTES: u64 = 1024 * 1024;

/// The settings in the file; none where there is no file.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let refused = |reason: String| ConfigError::File { path: path.to_owned(), reason };
    match fs::metadata(path) {
        Ok(found) if found.len() > FILE_BYTES => return Err(refused("it is larger than 1 MiB".to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(refused(error.to_string())),
    }
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| refused(error.to_string()))?;
    let unknown: Vec<&str> = table.keys().map(String::as_str).filter(|key| !KNOWN.contains(key)).collect();
    if !unknown.is_empty() {
        return Err(refused(format!(
            "it has unknown keys: {}; known are: {}",
            unknown.join(", "),
            KNOWN.join(", ")
        )));
    }
    table.into_iter().map(|(key, value)| Ok((key.clone(), plain(&key, value).map_err(refused)?))).collect()
}

fn plain(key: &str, value: toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        // A list of paths, as the environment writes it.
        toml::Value::Array(list) if key == LIST => joined(key, list),
        list @ toml::Value::Array(_) if key == SKILLS => {
            serde_json::to_string(&list).map_err(|error| format!("{key}: {error}"))
        }
        other @ (toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_)
        | toml::Value::Array(_)
        | toml::Value::Table(_)) => {
            Err(format!("{key} is a {}; expected a text or a whole number", other.type_str()))
        }
    }
}

fn joined(key: &str, list: Vec<toml::Value>) -> Result<String, String> {
    let paths: Option<Vec<String>> = list.into_iter().map(|path| path.as_str().map(str::to_owned)).collect();
    let paths =
        paths.ok_or_else(|| format!("{key} holds something that is no text; expected absolute paths"))?;
    let joined = std::env::join_paths(paths).map_err(|_| format!("{key} holds a path with a colon"))?;
    joined.into_string().map_err(|_| format!("{key} holds a path that is no UTF-8"))
}
