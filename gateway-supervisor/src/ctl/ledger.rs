//! `gatewayctl ledger ID`: what a session's journal holds, whether it is whole, and what its changes changed.
//!
//! Invariant: reads files of the state directory alone; works without a running gateway, and changes nothing.

mod diff;
mod lines;
mod verify;

use std::{path::Path, thread, time::Duration};

use protocol::id::SessionId;
use serde_json::{Value, json};

use super::{
    CtlError, Report,
    args::LedgerView,
    page::{Cell, Page, Tone},
};
use crate::{
    config::Config,
    ledger::{
        blobs::Blobs,
        inspect::{self, Inspected},
    },
};

/// A record that a running supervisor is writing is whole at the next look. This often, and this long apart, it is looked at.
const LOOKS: (u32, Duration) = (10, Duration::from_millis(50));

/// Whoever may read this owns the session; a listing that is passed on should still not drive it.
const RIGHTS: [&str; 1] = ["lease_id"];
/// What tells of this machine's inside, and is shown only where everything is asked for (M8).
const PRIVATE: [&str; 4] = [RIGHTS[0], "pid", "socket", "instance"];

/// The session's journal, seen in one of several ways.
pub(super) fn view(config: &Config, words: &str, view: &LedgerView) -> Result<Report, CtlError> {
    let session = session(&config.state, words)?;
    let inspected = inspected(&config.state, session)?;
    let blobs = Blobs::of_session(&config.state, session);
    if view.verify {
        return Ok(verify::verify(session, &inspected, &blobs));
    }
    if view.diff {
        return Ok(diff::diffs(session, &inspected, &blobs));
    }
    Ok(listed(session, &inspected, view.export))
}

fn inspected(state: &Path, session: SessionId) -> Result<Inspected, CtlError> {
    let mut looks = 0;
    loop {
        let inspected = inspect::inspect(state, session).map_err(|error| {
            let next = "keep a copy of the session's folder, then run gatewayctl doctor";
            CtlError::failed(error.to_string(), next)
        })?;
        looks += 1;
        if !inspected.unfinished || looks == LOOKS.0 {
            return Ok(inspected);
        }
        thread::sleep(LOOKS.1);
    }
}

fn listed(session: SessionId, inspected: &Inspected, whole: bool) -> Report {
    let records: Vec<Value> = inspected
        .records
        .iter()
        .zip(1_u64..)
        .map(|(record, number)| {
            let mut value = serde_json::to_value(record).unwrap_or_default();
            hide(&mut value, if whole { &RIGHTS } else { &PRIVATE });
            value["number"] = json!(number);
            value
        })
        .collect();
    let mut page = Page::default();
    if whole {
        for record in &records {
            page.row([Cell::plain(record.to_string())]);
        }
    } else {
        page.row(["", "TIME", "RECORD", "WHAT"].map(|head| Cell::new(head, Tone::Name)));
        for (record, number) in inspected.records.iter().zip(1_u64..) {
            page.row(lines::line(number, record));
        }
    }
    if inspected.unfinished {
        page.gap();
        page.row([Cell::new(
            "The last record is not finished: it is being written, or was cut in a crash.",
            Tone::Care,
        )]);
    }
    let body = json!({"native_session_id": session, "records": records, "unfinished": inspected.unfinished});
    Report::done(body, page)
}

fn hide(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(&name.as_str()));
            fields.values_mut().for_each(|value| hide(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| hide(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The session with this id, or the only one whose id begins so.
fn session(state: &Path, words: &str) -> Result<SessionId, CtlError> {
    if let Ok(session) = words.parse() {
        return Ok(session);
    }
    let next = "gatewayctl sessions lists them";
    let all = inspect::sessions(state)
        .map_err(|error| CtlError::failed(format!("listing the sessions failed: {error}"), next))?;
    let beginning = if words.starts_with("ses_") { words.to_owned() } else { format!("ses_{words}") };
    let mut found =
        all.into_iter().filter(|session| !words.is_empty() && session.to_string().starts_with(&beginning));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(CtlError::failed(format!("no session's id begins with {words:?}"), next)),
        (Some(_), Some(_)) => {
            Err(CtlError::failed(format!("several sessions begin with {words:?}; give more of the id"), next))
        }
    }
}
