//! `native_session_start`: the birth of a session.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use protocol::{
    digest::Digest,
    failure::Failure,
    id::{ClaudeSessionId, IdempotencyKey, RunId, SessionId},
    lease::Lease,
    limits::{PROMPT_PREVIEW_BYTES, SKILLS},
    profile::{Profile, SubagentPolicy},
    timestamp::Timestamp,
    workspace::{RootIdentity, Workspace, WorkspaceKind},
};

use super::{call, ground, refusal};
use crate::{
    config::Config,
    ledger::record::{Created, Entry, Record, RunStarted},
    mcp::input::{SkillContext, StartInput},
    skill::{self, Allowlist, Skill},
    workspace::{git::GitError, plan, worktree::Unsuitable},
};

/// What a first turn shows beside skills: the head of the prompt and the tools.
const BESIDE_SKILLS_BYTES: usize = PROMPT_PREVIEW_BYTES + TOOLS_BYTES;

/// Names, descriptions and schemas of all tools.
const TOOLS_BYTES: usize = 9 * 1024;

/// A start whose arguments are within their bounds.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The key.
    pub(crate) key: IdempotencyKey,
    /// Digest of the input.
    pub(crate) input: Digest,
    /// How long the call waits.
    pub(crate) wait: Duration,
    prompt: String,
    directory: PathBuf,
    label: Option<String>,
    profile: Profile,
    policy: SubagentPolicy,
    skills: Vec<SkillContext>,
}

impl Start {
    /// Whether the session may write.
    pub(crate) const fn writes(&self) -> bool {
        self.profile.writes()
    }
}

/// Where and how long a session is born to live.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cradle {
    /// The session's id.
    pub(crate) session: SessionId,
    /// How long a lease holds.
    pub(crate) lease: Duration,
    /// Fingerprint of the conversation that starts it.
    pub(crate) conversation: Option<Digest>,
}

/// Checks the arguments by themselves.
pub(crate) fn check(input: StartInput) -> Result<Start, Failure> {
    let digest = call::input_digest(&input)?;
    let wait = call::wait(input.wait_seconds, 30)?;
    let key = call::key("idempotency_key", &input.idempotency_key)?;
    let prompt = call::prompt(input.prompt)?;
    let label = call::words("session_label", input.session_label)?;
    let directory = absolute(&input.working_directory)?;
    let profile = input.capability_profile.unwrap_or_default();
    let policy = input.subagent_policy.unwrap_or_default();
    if policy == SubagentPolicy::DeepseekExplicit && profile != Profile::WorktreeWrite {
        return Err(refusal::argument(
            "subagent_policy",
            "deepseek_explicit needs the capability_profile worktree_write",
        ));
    }
    let skills = input.skill_contexts.unwrap_or_default();
    if skills.len() > SKILLS {
        let got = skills.len();
        return Err(refusal::argument("skill_contexts", format!("expected at most {SKILLS}, got {got}")));
    }
    Ok(Start { key, input: digest, wait, prompt, directory, label, profile, policy, skills })
}

fn absolute(text: &str) -> Result<PathBuf, Failure> {
    if text.contains('\0') {
        return Err(refusal::argument("working_directory", "a path has no NUL character"));
    }
    if !Path::new(text).is_absolute() {
        return Err(refusal::argument(
            "working_directory",
            format!("expected an absolute path, got {text:?}"),
        ));
    }
    Ok(PathBuf::from(text))
}

/// Whether this installation offers what is asked, and the directory as it is now: for a worktree, the source. Blocks on
/// the file system.
pub(crate) fn look(start: &Start, config: &Config) -> Result<Workspace, Failure> {
    let root = start.directory.canonicalize().map_err(|error| no_directory(&error))?;
    let identity = RootIdentity::at(&root).map_err(|error| no_directory(&error))?;
    if root.to_str().is_none() {
        return Err(refusal::argument("working_directory", "its canonical path is not UTF-8"));
    }
    let kind = match start.profile {
        Profile::ReadOnly | Profile::WorktreeWrite => WorkspaceKind::ReadOnly,
        Profile::DirectWrite => {
            ground::writable(&root, config)?;
            WorkspaceKind::Direct
        }
    };
    Ok(Workspace { kind, source: root.clone(), root, identity, notes: Vec::new() })
}

/// The workspace of the session: the directory itself, or the worktree that will be made from it.
pub(crate) async fn place(
    start: &Start,
    found: Workspace,
    (session, config): (SessionId, &Config),
) -> Result<Workspace, Failure> {
    match start.profile {
        Profile::ReadOnly | Profile::DirectWrite => Ok(found),
        Profile::WorktreeWrite => {
            plan::plan(found, session, config).await.map_err(|unsuitable| unsuited(&unsuitable))
        }
    }
}

fn unsuited(unsuitable: &Unsuitable) -> Failure {
    if matches!(unsuitable, Unsuitable::Git(GitError::Missing)) {
        return refusal::not_available(
            "the capability_profile worktree_write, which needs git on the supervisor's PATH,",
            "ask the owner to install git, or start the session with another capability_profile",
        );
    }
    refusal::argument("working_directory", unsuitable)
}

fn no_directory(error: &io::Error) -> Failure {
    let why = if error.kind() == io::ErrorKind::NotFound {
        "there is no such directory".to_owned()
    } else {
        format!("it can't be used as a directory: {}", error.kind())
    };
    refusal::argument("working_directory", why)
}

/// The skills of a start, as the owner's allowlist pins them, where a turn of `turn_bytes` can show them whole.
pub(crate) fn skills(start: &Start, allowlist: &Allowlist, turn_bytes: usize) -> Result<Vec<Skill>, Failure> {
    let skills =
        skill::admit(&start.skills, allowlist).map_err(|why| refusal::argument("skill_contexts", why))?;
    let bytes: usize = skills.iter().map(|skill| skill::shown_bytes(&skill.snapshot)).sum();
    let room = turn_bytes.saturating_sub(BESIDE_SKILLS_BYTES);
    if bytes > room && !skills.is_empty() {
        return Err(refusal::argument(
            "skill_contexts",
            format!(
                "the instructions together take {bytes} bytes of a turn, and this gateway's turns have room for {room}; the owner can raise CLAUDE_TOOLS_TURN_KIB"
            ),
        ));
    }
    Ok(skills)
}

/// The first records of the session.
pub(crate) fn born(start: Start, workspace: Workspace, cradle: Cradle, skills: &[Skill]) -> Vec<Record> {
    let now = Timestamp::now();
    let created = Created {
        session_id: cradle.session,
        claude_session_id: ClaudeSessionId::mint(),
        idempotency_key: start.key.clone(),
        input: start.input,
        workspace,
        profile: start.profile,
        subagent_policy: start.policy,
        label: start.label,
        skills: skills.iter().map(|skill| skill.snapshot.clone()).collect(),
        lease: Lease::grant(now, cradle.lease),
        lease_millis: u64::try_from(cradle.lease.as_millis()).unwrap_or(u64::MAX),
        conversation: cradle.conversation,
        release: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let run = RunStarted {
        run_id: RunId::mint(),
        sequence: 1,
        idempotency_key: start.key,
        input: start.input,
        prompt: start.prompt,
    };
    let entries = [Entry::Created(Box::new(created)), Entry::RunStarted(run)];
    entries.map(|entry| Record { at: now, entry }).into()
}

#[cfg(test)]
mod tests {
    use protocol::{
        limits::{KEY_CHARS, SKILL_BYTES, TURN_BYTES},
        tool::ToolName,
    };

    use super::*;

    #[test]
    fn a_turn_holds_all_tools_and_as_many_instructions_as_a_session_takes() {
        let tools: usize = ToolName::ALL
            .iter()
            .map(|tool| tool.name().len() + tool.description().len() + tool.input_schema().to_string().len())
            .sum();
        assert!(tools <= TOOLS_BYTES, "{tools}");
        let around = SKILLS * (skill::NOTE.len() + KEY_CHARS);
        assert!(SKILL_BYTES + around + BESIDE_SKILLS_BYTES <= TURN_BYTES, "{around}");
    }
}
