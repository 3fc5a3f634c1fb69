//! A session that may delegate, in a worktree, with a scripted model for its sub-sessions.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{Answer, Gateway, Model, Session, ToolError, key, until};

/// The key that nobody but the model's endpoint may see.
pub const KEY: &str = "sk-CANARY-77aa01";

/// A gateway with a model, and a session that may delegate, in a worktree.
pub struct Rig {
    /// The gateway.
    pub gateway: Gateway,
    /// The model of its sub-sessions.
    pub model: Model,
    /// The session.
    pub session: Session,
    /// Its worktree.
    pub root: PathBuf,
}

/// Runs git.
///
/// # Panics
/// Where it fails.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@x"])
        .args(arguments)
        .current_dir(directory)
        .env("HOME", directory)
        .output()
        .expect("git starts");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Rig {
    /// With a model that answers this first.
    #[must_use]
    pub fn new(answers: &[Answer]) -> Self {
        Self::with(answers, &[])
    }

    /// The same with more settings.
    #[must_use]
    pub fn with(answers: &[Answer], more: &[(&str, &str)]) -> Self {
        Self::of(Model::with(answers), more)
    }

    /// With this model.
    ///
    /// # Panics
    /// Where the session does not come up.
    #[must_use]
    pub fn of(model: Model, more: &[(&str, &str)]) -> Self {
        Self::instructed(model, more, &json!([]))
    }

    /// With this model, and a session that is given these skills.
    ///
    /// # Panics
    /// Where the session does not come up.
    #[must_use]
    pub fn instructed(model: Model, more: &[(&str, &str)], skills: &Value) -> Self {
        let url = model.url();
        let mut settings = vec![
            ("CLAUDE_TOOLS_DEEPSEEK_URL", url.as_str()),
            ("CLAUDE_TOOLS_DEEPSEEK_FLASH_MODEL", "the-flash"),
            ("CLAUDE_TOOLS_DEEPSEEK_PRO_MODEL", "the-pro"),
        ];
        settings.extend(more);
        let gateway = Gateway::prepared(&settings, |folder, environment| {
            // What the test leaves of them goes with the gateway's folder.
            let files = [("CLAUDE_TOOLS_DEEPSEEK_KEY_FILE", "key", format!("{KEY}\r\n"))].into_iter();
            let authority = model.authority().to_owned();
            let authorities = (!authority.is_empty()).then_some((
                "CLAUDE_TOOLS_DEEPSEEK_CA_FILE",
                "authority.pem",
                authority,
            ));
            for (name, file, content) in files.chain(authorities) {
                let path = folder.join(file);
                fs::write(&path, content).expect("written");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its owner's alone");
                let path = path.to_str().expect("a path of UTF-8").to_owned();
                environment.entry(name.to_owned()).or_insert(path);
            }
        });
        let source = gateway.work.join("source");
        fs::create_dir(&source).expect("made");
        git(&source, &["init", "-q", "-b", "main"]);
        fs::write(source.join("a.txt"), "one\n").expect("written");
        git(&source, &["add", "-A"]);
        git(&source, &["commit", "-qm", "first"]);
        let start = json!({
            "prompt": "p", "idempotency_key": key(), "working_directory": source, "skill_contexts": skills,
            "capability_profile": "worktree_write", "subagent_policy": "deepseek_explicit", "wait_seconds": 50,
        });
        crate::http::listen_to(gateway.client.address);
        let view = gateway.client.call("native_session_start", &start).expect("a session");
        let mut session = Session::of(&gateway.client, view);
        session.turn();
        let root = PathBuf::from(session.text("working_directory"));
        Self { gateway, model, session, root }
    }

    /// Delegates a task: what `deepseek_subagent_start` told.
    pub fn delegate(&mut self, tier: &str) -> Value {
        self.tool("deepseek_subagent_start", json!({"task": "Do it.", "model": tier}))
    }

    /// One call of a tool that tells in JSON.
    ///
    /// # Panics
    /// Where it tells in anything else.
    pub fn tool(&mut self, name: &str, input: Value) -> Value {
        let results = self.session.act(&[(name, input)]);
        let text = results[0]["content"].as_str().expect("a text");
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{name}: {text}"))
    }

    /// Asks until the sub-session has ended.
    pub fn end_of(&mut self, id: &Value) -> Value {
        until("the sub-session ends", Duration::from_secs(90), || {
            let told = self.tool("deepseek_subagent_get", json!({"id": id}));
            (!matches!(told["state"].as_str(), Some("starting" | "running"))).then_some(told)
        })
    }

    /// The error of a reply that must be refused.
    #[must_use]
    pub fn refused(&mut self, calls: &Value) -> ToolError {
        let turn = self.session.turn()["turn_id"].clone();
        let reply = self.session.arguments(&json!({"turn_id": turn, "reply_id": key(), "tool_calls": calls}));
        self.gateway.client.refused("native_session_reply_and_wait", &reply)
    }

    /// A file of the worktree.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}
