//! The objects that answer the owner: what `gatewayctl --json` prints.
//!
//! Invariant: fields are only ever added.

use protocol::{
    digest::Digest,
    failure::{ErrorCode, Failure},
    id::{ActionId, SessionId, SubsessionId},
    limits::FRAME_BYTES,
    profile::Profile,
    session::Status,
    wire::control::ControlAnswer,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{ledger::Row, session::view::SessionView};

/// Room in a frame for the sessions of a list; the rest is the envelope.
const LIST_BYTES: usize = FRAME_BYTES - 1024;

/// A text in an answer that would not fit its frame is cut to this length.
const CUT_TEXT_BYTES: usize = 8 * 1024;

/// How the gateway stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// The supervisor's release.
    pub version: String,
    /// Where ChatGPT's connector finds it.
    pub mcp_url: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// Its sessions.
    pub sessions: SessionCounts,
}

/// How many sessions there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SessionCounts {
    /// In the ledger.
    pub stored: usize,
    /// With a live Claude Code.
    pub attached: usize,
}

/// One session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionLine {
    /// The session.
    pub native_session_id: String,
    /// Claude Code's own session id; none where the record can't be read.
    pub claude_session_id: Option<String>,
    /// The name that was given at the start.
    pub session_label: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// Whether a live Claude Code is attached.
    pub runtime_attached: bool,
    /// Whether an interrupted action waits to be acknowledged.
    pub recovery_required: bool,
    /// What it may do; none where the record can't be read.
    pub capability_profile: Option<Profile>,
    /// The directory that was asked for; none where nothing is known of it.
    pub source_directory: Option<String>,
    /// When its lease ends; RFC 3339, UTC; none where the record can't be read.
    pub lease_expires_at: Option<String>,
    /// Counts the durable changes; none where the record can't be read.
    pub revision: Option<u64>,
    /// Why its record can't be read or takes nothing more, and what mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl SessionLine {
    /// A session whose record can't be read: what the index knows of it, and why.
    #[must_use]
    pub(crate) fn unreadable(row: &Row, why: &Failure) -> Self {
        let known = row.summary.as_ref();
        let trouble =
            row.trouble.as_ref().map_or_else(|| why.message.clone().into_owned(), ToString::to_string);
        Self {
            native_session_id: row.session_id.to_string(),
            claude_session_id: None,
            session_label: known.and_then(|summary| summary.label.clone()),
            status: Status::Failed,
            runtime_attached: false,
            recovery_required: false,
            capability_profile: None,
            source_directory: known.map(|summary| summary.working_directory.to_string_lossy().into_owned()),
            lease_expires_at: None,
            revision: None,
            trouble: Some(trouble),
        }
    }
}

/// One worktree in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorktreeLine {
    /// The session that made it.
    pub native_session_id: String,
    /// Where that stands.
    pub status: Status,
    /// Its folder.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// The commit that it was made from.
    pub base_commit: String,
    /// The repository that it was made from.
    pub source_directory: String,
    /// The commands by which its owner takes the work over.
    pub take_over: String,
    /// Whether its removal was begun and did not come to its end.
    pub removal_interrupted: bool,
}

/// An undo that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// The session.
    pub native_session_id: SessionId,
    /// The undo's own action, by which it can be undone itself.
    pub action_id: ActionId,
    /// The change that it undid.
    pub undoes: ActionId,
    /// The sub-session whose change that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsession_id: Option<SubsessionId>,
    /// The file.
    pub path: String,
    /// SHA-256 of what stood there; none where no file did.
    pub before: Option<Digest>,
    /// SHA-256 of what stands there now; none where the file was taken away.
    pub after: Option<Digest>,
    /// `applied`, or `already_undone` where an earlier call did it.
    pub outcome: &'static str,
    /// When it was done; RFC 3339, UTC.
    pub at: String,
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl From<&SessionView> for SessionLine {
    fn from(view: &SessionView) -> Self {
        Self {
            native_session_id: view.native_session_id.clone(),
            claude_session_id: Some(view.claude_session_id.clone()),
            session_label: view.session_label.clone(),
            status: view.status,
            runtime_attached: view.runtime_attached,
            recovery_required: view.recovery_required,
            capability_profile: Some(view.capability_profile),
            source_directory: Some(view.source_directory.clone()),
            lease_expires_at: Some(view.lease_expires_at.clone()),
            revision: Some(view.revision),
            trouble: None,
        }
    }
}

/// A value as the object it is.
pub(super) fn object(value: &impl Serialize) -> Value {
    // A derived Serialize with string keys has no way to fail.
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// `{"sessions": […]}` with as many as a frame holds, and `omitted` where there are more.
pub(super) fn list(lines: &[SessionLine]) -> Value {
    let mut room = LIST_BYTES;
    let mut shown = Vec::new();
    for line in lines {
        let line = object(line);
        let Some(left) = room.checked_sub(line.to_string().len() + 1) else { break };
        room = left;
        shown.push(line);
    }
    let omitted = lines.len() - shown.len();
    let mut body = json!({ "sessions": shown });
    if omitted > 0 {
        body["omitted"] = json!(omitted);
    }
    body
}

/// A session without the tokens that drive it.
pub(super) fn view(view: &SessionView) -> Value {
    let mut body = object(view);
    if let Some(fields) = body.as_object_mut() {
        for token in ["lease_id", "recovery_token", "next"] {
            fields.remove(token);
        }
    }
    body
}

/// The answer's bytes, with its long texts cut where it would not fit a frame.
pub(super) fn encode(answer: ControlAnswer) -> Vec<u8> {
    let bytes = serde_json::to_vec(&answer).unwrap_or_default();
    if (1..=FRAME_BYTES).contains(&bytes.len()) {
        return bytes;
    }
    let cut = match answer {
        ControlAnswer::Done { mut body } => {
            cut_texts(&mut body);
            ControlAnswer::Done { body }
        }
        refused @ ControlAnswer::Refused { .. } => refused,
    };
    let bytes = serde_json::to_vec(&cut).unwrap_or_default();
    if (1..=FRAME_BYTES).contains(&bytes.len()) {
        return bytes;
    }
    let failure = Failure::fixed(
        ErrorCode::Internal,
        "the answer is larger than the owner's socket carries",
        "ask for one session at a time with gatewayctl show ID",
    );
    serde_json::to_vec(&ControlAnswer::Refused { failure }).unwrap_or_default()
}

fn cut_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > CUT_TEXT_BYTES => {
            let kept = (0..=CUT_TEXT_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let rest = text.len() - kept;
            text.truncate(kept);
            text.push_str(&format!("… ({rest} more bytes)"));
        }
        Value::Array(items) => items.iter_mut().for_each(cut_texts),
        Value::Object(fields) => fields.values_mut().for_each(cut_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
