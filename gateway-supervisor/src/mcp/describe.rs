//! How the six tools are described to the model that calls them.
//!
//! Invariant: frozen from the first release. A description may be made clearer; a field is only ever added.
//! Invariant: all four hints stand on every tool, because a client's defaults are the alarming ones.

use std::sync::{Arc, LazyLock};

use protocol::schema::plain;
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::Value;

use super::{
    input::{ContinueInput, RecoverInput, ReplyInput, StartInput, StatusInput, StopInput},
    result_schema::result_schema,
    tool::SessionTool,
};

/// What a client is told about the gateway as a whole when it connects.
pub const INSTRUCTIONS: &str = "This gateway lets you drive a real Claude Code session on the user's own computer. You are its only model: \
whenever Claude Code would ask its model, the request comes to you as `pending_turn`, and you answer it.\n\
The loop: 1. native_session_start with the task and an absolute working_directory. 2. While `status` is waiting_for_gpt, answer \
`pending_turn` with native_session_reply_and_wait: tool_calls to look or act, text alone as the final answer of the run. Its result \
holds the next pending_turn. 3. When `status` is idle, the run is over: native_session_continue for another prompt, or \
native_session_stop.\n\
While `status` is starting or running, call native_session_status with wait_seconds 30. Every result says in `next` what to call.\n\
Pass the newest `lease_id` with every call. Choose a fresh random key for each new request. If an answer was lost or timed out, make \
the same call again with the same key: nothing is done twice. If the lease is stale or expired, call native_session_recover with \
the recovery_token that native_session_start returned.\n\
Errors are results with {code, message, retryable, next}; do what `next` says.";

/// The six tools, ready to be listed.
pub fn tools() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| SessionTool::ALL.into_iter().map(define).collect());
    &TOOLS
}

/// The names of a tool's fields, and which of them are required.
pub(super) fn fields(tool: SessionTool) -> (Vec<&'static str>, Vec<&'static str>) {
    let schema = &tools()[tool as usize].input_schema;
    let known = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    (
        known.into_iter().flat_map(|fields| fields.keys().map(String::as_str)).collect(),
        required.into_iter().flatten().filter_map(Value::as_str).collect(),
    )
}

fn define(tool: SessionTool) -> Tool {
    // One schema, shared: the six results are one view.
    static RESULT: LazyLock<Arc<JsonObject>> = LazyLock::new(|| Arc::new(object(result_schema())));
    let (invoking, invoked) = progress_texts(tool);
    let meta = JsonObject::from_iter([
        ("openai/toolInvocation/invoking".to_owned(), Value::from(invoking)),
        ("openai/toolInvocation/invoked".to_owned(), Value::from(invoked)),
    ]);
    Tool::new(tool.name(), description(tool), object(input_schema(tool)))
        .with_title(title(tool))
        .with_raw_output_schema(Arc::clone(&RESULT))
        .with_annotations(annotations(tool))
        .with_meta(MetaObject(meta))
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(fields) => fields,
        // `true` and `false` are the only other schemas; neither is a struct's.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}

fn input_schema(tool: SessionTool) -> Value {
    match tool {
        SessionTool::Start => plain::<StartInput>(),
        SessionTool::Continue => plain::<ContinueInput>(),
        SessionTool::Recover => plain::<RecoverInput>(),
        SessionTool::Reply => plain::<ReplyInput>(),
        SessionTool::Status => plain::<StatusInput>(),
        SessionTool::Stop => plain::<StopInput>(),
    }
}

fn annotations(tool: SessionTool) -> ToolAnnotations {
    let hints = |read_only, destructive| {
        ToolAnnotations::new()
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(true)
            .open_world(false)
    };
    match tool {
        SessionTool::Status => hints(true, false),
        SessionTool::Start | SessionTool::Continue | SessionTool::Recover => hints(false, false),
        SessionTool::Reply | SessionTool::Stop => hints(false, true),
    }
}

const fn title(tool: SessionTool) -> &'static str {
    match tool {
        SessionTool::Start => "Start a Claude Code session",
        SessionTool::Continue => "Give the session its next prompt",
        SessionTool::Recover => "Take a session up again",
        SessionTool::Reply => "Answer Claude Code and wait",
        SessionTool::Status => "Look at a session",
        SessionTool::Stop => "End a session",
    }
}

/// What ChatGPT shows while a call runs and when it is done; at most 64 characters each.
const fn progress_texts(tool: SessionTool) -> (&'static str, &'static str) {
    match tool {
        SessionTool::Start => ("Starting Claude Code…", "Claude Code started"),
        SessionTool::Continue => ("Handing over the next prompt…", "Prompt handed over"),
        SessionTool::Recover => ("Taking the session up again…", "Session taken up again"),
        SessionTool::Reply => ("Claude Code is working…", "Claude Code answered"),
        SessionTool::Status => ("Looking at the session…", "Looked at the session"),
        SessionTool::Stop => ("Ending the session…", "Session ended"),
    }
}

const fn description(tool: SessionTool) -> &'static str {
    match tool {
        SessionTool::Start => {
            "Starts a Claude Code session on the user's computer and gives it its first prompt. Claude Code has no model of its own here: you are \
its model. Each request it makes comes to you as `pending_turn`; answer it with native_session_reply_and_wait.\n\
Use it once per task. For a further prompt in the same session use native_session_continue; after a lost lease, native_session_recover.\n\
capability_profile says what the session may do, for good: read_only (read, find, search, run commands that can write nothing outside \
a private scratch), direct_write (also exact edits in working_directory itself), worktree_write (the same edits in a new Git worktree, \
which the user reviews and merges).\n\
Keep native_session_id, lease_id and recovery_token from the result: later calls need them. Next: if status is waiting_for_gpt, answer \
pending_turn; if it is starting or running, call native_session_status with wait_seconds 30; if it is failed, launch_error says why.\n\
If no answer came, make the same call again with the same idempotency_key: it returns the same session and never starts a second one."
        }
        SessionTool::Continue => {
            "Gives an idle session its next prompt. Claude Code keeps the whole conversation so far, also when its process has to be started again.\n\
Use it when status is idle; while a run is under way it is refused as busy: answer or await that run first. The result's pending_turn is the \
first turn of the new run; answer it with native_session_reply_and_wait. If the previous run was lost, the turn's recovered_actions tell \
what became of its actions: read them before you repeat anything.\n\
If no answer came, make the same call again with the same idempotency_key: the prompt is given once."
        }
        SessionTool::Recover => {
            "Takes a session up again when its lease is stale or expired, when you no longer have its lease_id, or when status is \
recovery_required (what an interrupted action did can't be known; this call acknowledges it). It gives a new lease_id and makes every \
older one invalid. It repeats no action.\n\
Needs the recovery_token that native_session_start returned. Next: do what `next` in the result says; usually answer pending_turn with \
native_session_reply_and_wait, or call native_session_continue when status is idle.\n\
If no answer came, make the same call again with the same recovery_id."
        }
        SessionTool::Reply => {
            "Answers the pending turn and waits for the next one. Repeat it until the task is done.\n\
Give tool_calls to look or act (1 to 32; names and input schemas are in the turn's `tools`, or in the earlier turn that tools_same_as names), \
text for Claude Code's record, or both. They run in the order given, and their results come back in the next pending_turn's tool_results, in that \
order. Text alone, without tool_calls, is the final answer: it ends the run, last_result holds it and status becomes idle.\n\
turn_id must be the one of the newest pending_turn. A reply is checked whole before anything runs: if it is refused, nothing ran and the same \
turn stays open, so correct the reply and send it with a fresh reply_id.\n\
If status is running when the time is over, call native_session_status with wait_seconds 30. If no answer came, make the same call again with the \
same reply_id: no tool runs twice."
        }
        SessionTool::Status => {
            "Shows how a session stands, with its pending turn, and renews its lease. It changes nothing and calls no model.\n\
Use it with wait_seconds 30 while status is starting, running or stopping: it returns as soon as there is a turn to answer, a final result or an \
error. Use it without wait_seconds to see again what a lost answer held. Next: do what `next` in the result says."
        }
        SessionTool::Stop => {
            "Ends a session for good: Claude Code, every command it runs and every delegated task. The session's record, its files and its Git worktree \
are kept. An open turn is closed unanswered; a stopped session can't be continued.\n\
Use it when the task is done or the user wants to stop. It is not needed between prompts: an idle session waits for native_session_continue. \
If no answer came, make the same call again with the same request_id."
        }
    }
}

#[cfg(test)]
mod tests;
