use std::fs;

use super::*;

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}

#[test]
fn every_setting_that_cannot_be_used_is_named() {
    let state = tempfile::tempdir().unwrap();
    let state = state.path().to_str().unwrap();
    for (name, value) in [
        ("CLAUDE_TOOLS_LISTEN", "0.0.0.0:7380"),
        ("CLAUDE_TOOLS_LISTEN", "localhost"),
        ("CLAUDE_TOOLS_LISTEN", "[::ffff:8.8.8.8]:1"),
        ("CLAUDE_TOOLS_LEASE_SECONDS", "2"),
        ("CLAUDE_TOOLS_LEASE_SECONDS", "604801"),
        ("CLAUDE_TOOLS_LEASE_SECONDS", "soon"),
        ("CLAUDE_TOOLS_TURN_KIB", "7"),
        ("CLAUDE_TOOLS_WORK_DIR", "work"),
        ("CLAUDE_BIN", "claude"),
        ("CLAUDE_TOOLS_MCP_RESPONSE", "xml"),
        ("CLAUDE_TOOLS_MCP_TEXT", "none"),
    ] {
        let error = Config::from_environment(variables(&[("CLAUDE_TOOLS_STATE_DIR", state), (name, value)]))
            .unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    let error = Config::from_environment(variables(&[("CLAUDE_TOOLS_STATE_DIR", "relative")])).unwrap_err();
    assert!(error.to_string().contains("CLAUDE_TOOLS_STATE_DIR"), "{error}");
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
    let state = tempfile::tempdir().unwrap();
    fs::write(
        state.path().join("config.toml"),
        "claude_tools_lease_seconds = 60\nclaude_tools_listen = \"127.0.0.1:1\"\n",
    )
    .unwrap();
    let config = Config::from_environment(variables(&[
        ("CLAUDE_TOOLS_STATE_DIR", state.path().to_str().unwrap()),
        ("CLAUDE_TOOLS_LISTEN", "127.0.0.1:2"),
    ]))
    .unwrap();
    assert_eq!((config.lease, config.listen.port()), (Duration::from_secs(60), 2));
    assert_eq!(config.work, with_suffix(state.path(), "-work"));
    assert_eq!(config.response, ResponseMode::Json);
}

#[test]
fn an_unknown_key_or_a_wrong_type_in_the_file_is_named() {
    let state = tempfile::tempdir().unwrap();
    for (text, named) in [
        ("lease = 3\n", "lease"),
        ("claude_tools_listen = [1]\n", "claude_tools_listen"),
        ("x = \n", "line 1"),
    ] {
        fs::write(state.path().join("config.toml"), text).unwrap();
        let error = Config::from_environment(variables(&[(
            "CLAUDE_TOOLS_STATE_DIR",
            state.path().to_str().unwrap(),
        )]))
        .unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
}
