//! From a call's arguments to the typed input of its tool, with everything checked that needs no session.
//!
//! Invariant: what is refused here names its field and has touched nothing.

use protocol::{
    canonical::respelled,
    failure::{ErrorCode, Failure},
    id::{IdempotencyKey, InvalidId, RecoveryId, ReplyId, RequestId},
    limits::{KEY_CHARS, PROMPT_BYTES, REPLY_CALLS, SKILLS, WAIT_SECONDS},
    profile::{Profile, SubagentPolicy},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    describe,
    input::{ContinueInput, RecoverInput, ReplyInput, SkillContext, StartInput, StatusInput, StopInput},
    tool::SessionTool,
};

/// `wait_seconds` of start, continue and reply where it is left out.
const WAIT_FOR_TURN: u64 = 30;

/// The field that holds skills.
const SKILL_CONTEXTS: &str = "skill_contexts";

/// How much of a refused value an error repeats: enough to recognise it, whatever was sent.
const ECHO_BYTES: usize = 400;

/// A checked call.
#[derive(Debug)]
pub(super) enum Call {
    Start(StartInput),
    Continue(ContinueInput),
    Recover(RecoverInput),
    Reply(ReplyInput),
    Status(StatusInput),
    Stop(StopInput),
}

impl Call {
    /// Whether it may wait for something to happen, and so counts as a waiter. `stop` never counts: it must get through.
    pub(super) fn waits(&self) -> bool {
        let (given, left_out) = match self {
            Self::Start(input) => (input.wait_seconds, WAIT_FOR_TURN),
            Self::Continue(input) => (input.wait_seconds, WAIT_FOR_TURN),
            Self::Reply(input) => (input.wait_seconds, WAIT_FOR_TURN),
            Self::Recover(input) => (input.wait_seconds, 0),
            Self::Status(input) => (input.wait_seconds, 0),
            Self::Stop(_) => (None, 0),
        };
        given.unwrap_or(left_out) > 0
    }
}

/// Reads and checks the arguments of a call.
///
/// # Errors
/// `invalid_argument`, naming the field.
pub(super) fn parse(tool: SessionTool, arguments: Map<String, Value>) -> Result<Call, Failure> {
    let call = match tool {
        SessionTool::Start => typed(tool, arguments).and_then(start).map(Call::Start),
        SessionTool::Continue => typed(tool, arguments).and_then(continue_).map(Call::Continue),
        SessionTool::Recover => typed(tool, arguments).and_then(recover).map(Call::Recover),
        SessionTool::Reply => typed(tool, arguments).and_then(reply).map(Call::Reply),
        SessionTool::Status => typed(tool, arguments).and_then(status).map(Call::Status),
        SessionTool::Stop => typed(tool, arguments).and_then(stop).map(Call::Stop),
    };
    call.map_err(|reason| {
        let name = tool.name();
        Failure::fixed(
            ErrorCode::InvalidArgument,
            format!("{name} was not run, and nothing changed: {}", shortened(reason)),
            format!("call {name} again with that field corrected"),
        )
    })
}

/// Reads the fields; the error names the one that is wrong.
fn typed<T: DeserializeOwned>(tool: SessionTool, mut arguments: Map<String, Value>) -> Result<T, String> {
    let (known, required) = describe::fields(tool);
    if let Some(unknown) = arguments.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("unknown field `{unknown}`; its fields are {}", known.join(", ")));
    }
    // An optional field that a client fills with null is a field left out.
    arguments.retain(|_, value| !value.is_null());
    if let Some(missing) = required.iter().find(|name| !arguments.contains_key(**name)) {
        return Err(format!("missing field `{missing}`"));
    }
    for value in arguments.values_mut().filter(|value| value.is_number()) {
        *value = respelled(value);
    }
    let mut arguments = Value::Object(arguments);
    match T::deserialize(&arguments) {
        Ok(input) => Ok(input),
        Err(error) => Err(blame::<T>(&mut arguments, &error.to_string())),
    }
}

/// serde does not say in which field a wrong type stands: the one whose removal changes the error is it. What was removed
/// stays away, for two fields may be wrong in the same words.
fn blame<T: DeserializeOwned>(arguments: &mut Value, error: &str) -> String {
    let names: Vec<String> =
        arguments.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect();
    for name in names {
        let Some(taken) = arguments.as_object_mut().and_then(|fields| fields.remove(&name)) else { continue };
        let same = T::deserialize(&*arguments).is_err_and(|other| other.to_string() == error);
        if !same && name == SKILL_CONTEXTS {
            return skills_blame(&taken);
        }
        if !same {
            return format!("field `{name}`: {error}");
        }
    }
    error.to_owned()
}

/// What a skill says is in no error, so what was sent in its place is not repeated either.
fn skills_blame(value: &Value) -> String {
    let Some(skills) = value.as_array() else {
        return format!("field `{SKILL_CONTEXTS}`: expected a list of {{skill_id, content}}");
    };
    let wrong = skills.iter().position(|skill| SkillContext::deserialize(skill).is_err()).unwrap_or_default();
    format!("field `{SKILL_CONTEXTS}`, entry {wrong}: expected exactly the texts `skill_id` and `content`")
}

fn shortened(mut text: String) -> String {
    if text.len() > ECHO_BYTES {
        let end = (0..=ECHO_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

fn start(input: StartInput) -> Result<StartInput, String> {
    prompt(&input.prompt)?;
    key::<IdempotencyKey>("idempotency_key", &input.idempotency_key)?;
    absolute(&input.working_directory)?;
    label("session_label", input.session_label.as_deref())?;
    wait(input.wait_seconds)?;
    let skills = input.skill_contexts.as_ref().map_or(0, Vec::len);
    if skills > SKILLS {
        return Err(format!("field `skill_contexts`: expected at most {SKILLS} skills, got {skills}"));
    }
    match (input.subagent_policy.unwrap_or_default(), input.capability_profile.unwrap_or_default()) {
        (SubagentPolicy::DeepseekExplicit, Profile::ReadOnly | Profile::DirectWrite) => {
            Err("field `subagent_policy`: deepseek_explicit needs capability_profile worktree_write"
                .to_owned())
        }
        (SubagentPolicy::DeepseekExplicit, Profile::WorktreeWrite) | (SubagentPolicy::None, _) => Ok(input),
    }
}

fn continue_(input: ContinueInput) -> Result<ContinueInput, String> {
    prompt(&input.prompt)?;
    key::<IdempotencyKey>("idempotency_key", &input.idempotency_key)?;
    wait(input.wait_seconds)?;
    Ok(input)
}

fn recover(input: RecoverInput) -> Result<RecoverInput, String> {
    key::<RecoveryId>("recovery_id", &input.recovery_id)?;
    wait(input.wait_seconds)?;
    Ok(input)
}

fn reply(input: ReplyInput) -> Result<ReplyInput, String> {
    key::<ReplyId>("reply_id", &input.reply_id)?;
    wait(input.wait_seconds)?;
    let calls = input.tool_calls.as_ref().map_or(0, Vec::len);
    if calls > REPLY_CALLS {
        return Err(format!("field `tool_calls`: expected at most {REPLY_CALLS} calls, got {calls}"));
    }
    if calls == 0 && input.text.as_ref().is_none_or(|text| text.trim().is_empty()) {
        return Err(
            "fields `text` and `tool_calls`: expected a text, tool calls, or both, got neither".to_owned()
        );
    }
    Ok(input)
}

fn status(input: StatusInput) -> Result<StatusInput, String> {
    wait(input.wait_seconds)?;
    Ok(input)
}

fn stop(input: StopInput) -> Result<StopInput, String> {
    key::<RequestId>("request_id", &input.request_id)?;
    label("reason", input.reason.as_deref())?;
    Ok(input)
}

fn prompt(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("field `prompt`: expected a task, got a blank text".to_owned());
    }
    if text.len() > PROMPT_BYTES {
        return Err(format!("field `prompt`: expected at most {PROMPT_BYTES} bytes, got {}", text.len()));
    }
    Ok(())
}

fn key<T: std::str::FromStr<Err = InvalidId>>(field: &str, text: &str) -> Result<(), String> {
    text.parse::<T>().map(drop).map_err(|error| format!("field `{field}`: {error}"))
}

fn label(field: &str, text: Option<&str>) -> Result<(), String> {
    match text.map_or(0, |text| text.chars().count()) {
        count if count > KEY_CHARS => {
            Err(format!("field `{field}`: expected at most {KEY_CHARS} characters, got {count}"))
        }
        _ => Ok(()),
    }
}

fn absolute(path: &str) -> Result<(), String> {
    if path.contains('\0') {
        return Err("field `working_directory`: a path has no NUL character".to_owned());
    }
    if !path.starts_with('/') {
        return Err(format!("field `working_directory`: expected an absolute path, got {path:?}"));
    }
    Ok(())
}

fn wait(seconds: Option<u64>) -> Result<(), String> {
    match seconds {
        Some(seconds) if seconds > WAIT_SECONDS => {
            Err(format!("field `wait_seconds`: expected 0 to {WAIT_SECONDS}, got {seconds}"))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
