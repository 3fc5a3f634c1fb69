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
    assert_eq!(config.work, places::with_suffix(state.path(), "-work"));
    assert_eq!(config.response, ResponseMode::Json);
}

#[test]
fn the_skills_are_the_same_list_in_the_environment_and_in_the_file() {
    let state = tempfile::tempdir().unwrap();
    let digest = protocol::digest::Digest::of(b"x");
    let json = format!(r#"[{{"skill_id":"a","content_sha256":"{digest}"}}]"#);
    let state_dir = ("CLAUDE_TOOLS_STATE_DIR", state.path().to_str().unwrap());
    let loaded =
        |extra: &[(&str, &str)]| Config::from_environment(variables(&[&[state_dir], extra].concat()));
    let wanted = loaded(&[(skills::NAME, &json)]).unwrap().skills;
    assert!(wanted.pins("a", digest));
    let table = format!(
        "[[claude_tools_native_skill_allowlist_json]]\nskill_id = \"a\"\ncontent_sha256 = \"{digest}\"\n"
    );
    let text = format!("claude_tools_native_skill_allowlist_json = '{json}'\n");
    for file in [&table, &text] {
        fs::write(state.path().join("config.toml"), file).unwrap();
        assert_eq!(loaded(&[]).unwrap().skills, wanted);
    }
    assert_eq!(loaded(&[(skills::NAME, "[]")]).unwrap().skills, crate::skill::Allowlist::default());
    for (value, words) in [("[", "line 1"), (r#"[{"skill_id":"a","content_sha256":"0"}]"#, "entry 0")] {
        let error = loaded(&[(skills::NAME, value)]).unwrap_err().to_string();
        assert!(error.contains(skills::NAME) && error.contains(words), "{error}");
    }
    fs::write(state.path().join("config.toml"), table.replace(&digest.to_string(), "no")).unwrap();
    let error = loaded(&[]).unwrap_err().to_string();
    assert!(error.contains("config.toml") && error.contains("entry 0"), "{error}");
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

#[test]
fn the_owner_adds_protected_paths_and_commands_stay_out_of_the_state() {
    let state = tempfile::tempdir().unwrap();
    let named = |pairs: &[(&str, &str)]| {
        let mut all = vec![("CLAUDE_TOOLS_STATE_DIR", state.path().to_str().unwrap())];
        all.extend(pairs);
        Config::from_environment(variables(&all))
    };
    let config = named(&[("CLAUDE_TOOLS_PROTECTED", "/a/b:/c")]).unwrap();
    assert!(config.protected.starts_with(&["/a/b".into(), "/c".into()]));
    let inside = state.path().join("work");
    let error = named(&[("CLAUDE_TOOLS_WORK_DIR", inside.to_str().unwrap())]).unwrap_err();
    assert!(error.to_string().contains("outside the state directory"), "{error}");
    let file = state.path().join("config.toml");
    fs::write(&file, "claude_tools_protected = [\"/d\", \"/e f\"]\n").unwrap();
    assert!(named(&[]).unwrap().protected.starts_with(&["/d".into(), "/e f".into()]));
    for wrong in ["[1]", "[\"relative\"]", "[\"/a:b\"]"] {
        fs::write(&file, format!("claude_tools_protected = {wrong}\n")).unwrap();
        let error = named(&[]).unwrap_err().to_string();
        assert!(error.to_lowercase().contains("claude_tools_protected"), "{error}");
    }
}
