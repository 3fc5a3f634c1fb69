//! One line for each record.

use protocol::{
    action::Effect,
    digest::Digest,
    receipt::{Facts, Receipt},
    subagent::SubsessionEvent,
};

use crate::{
    ctl::page::{Cell, Tone},
    ledger::record::{BranchFate, Entry, Record},
};

/// As much of a text as a line shows.
const TEXT_CHARS: usize = 100;

/// As much of a digest as tells contents apart.
const DIGEST_CHARS: usize = 12;

pub(super) fn line(number: u64, record: &Record) -> [Cell; 4] {
    let (name, what) = entry(&record.entry);
    [
        Cell::plain(number.to_string()),
        Cell::plain(record.at.to_string()),
        Cell::new(name, Tone::Name),
        Cell::plain(shortened(&what)),
    ]
}

fn entry(entry: &Entry) -> (&'static str, String) {
    match entry {
        Entry::Created(created) => {
            ("created", format!("{} in {}", created.profile.name(), created.workspace.root.display()))
        }
        Entry::RunStarted(run) => ("run started", format!("{}: {}", run.sequence, run.prompt)),
        Entry::WorkspaceReady { workspace } => ("workspace ready", workspace.root.display().to_string()),
        Entry::WorkerStarting { launch, .. } => ("worker starting", launch.to_string()),
        Entry::WorkerAttached { launch, .. } => ("worker attached", launch.to_string()),
        Entry::ClaudeStarted { version, .. } => ("claude started", version.clone()),
        Entry::TurnOpened { turn, .. } => ("turn opened", format!("{} {}", turn.sequence, turn.turn_id)),
        Entry::Replied { reply, .. } => {
            let calls: Vec<String> =
                reply.actions.iter().map(|a| format!("{} {}", a.tool.name(), a.action_id)).collect();
            ("replied", if calls.is_empty() { "text alone".to_owned() } else { calls.join(", ") })
        }
        Entry::Prepared { prepared, .. } => {
            ("prepared", format!("{} {}", prepared.action_id, effect(&prepared.effect)))
        }
        Entry::Receipt { receipt, .. } => ("receipt", outcome(receipt)),
        Entry::RunEnded { outcome, .. } => ("run ended", outcome.name().to_owned()),
        Entry::ClaudeGone { detail, .. } => ("claude gone", detail.clone()),
        Entry::WorktreeRemoving { commit } => ("worktree removing", format!("at {commit}")),
        Entry::WorktreeRemoved { commit, branch } => {
            ("worktree removed", format!("at {commit}, branch {}", said(*branch)))
        }
        Entry::RootReplaced { reason } => ("root replaced", reason.clone()),
        Entry::LaunchFailed { message, .. } => ("launch failed", message.clone()),
        Entry::WorkerGone { detail, .. } => ("worker gone", detail.clone()),
        Entry::Resolved { action_id, resolution, detail } => {
            ("resolved", format!("{action_id} {resolution:?}: {detail}"))
        }
        Entry::Subsession { subsession_id, event, .. } => {
            ("sub-session", format!("{subsession_id} {}", happened(event)))
        }
        Entry::LeaseRenewed { expires_at } => ("lease renewed", format!("until {expires_at}")),
        Entry::LeaseExpired => ("lease expired", String::new()),
        Entry::Recovered { .. } => ("recovered", String::new()),
        Entry::StopRequested { reason, .. } => ("stop requested", reason.clone().unwrap_or_default()),
        Entry::Stopped => ("stopped", String::new()),
        Entry::UndoBegun(begun) => ("undo begun", format!("{} undoes {}", begun.action_id, begun.undoes)),
        Entry::UndoPrepared { prepared } => {
            ("undo prepared", format!("{} {}", prepared.action_id, effect(&prepared.effect)))
        }
        Entry::UndoReceipt { receipt } => ("undo receipt", outcome(receipt)),
    }
}

fn happened(event: &SubsessionEvent) -> String {
    match event {
        SubsessionEvent::Called(action) => format!("called {} {}", action.tool.name(), action.action_id),
        SubsessionEvent::Prepared(prepared) => {
            format!("prepared {} {}", prepared.action_id, effect(&prepared.effect))
        }
        SubsessionEvent::Receipt(receipt) => outcome(receipt),
        SubsessionEvent::Ended(end) => {
            format!("{} {}", end.state.name(), end.reason.as_deref().unwrap_or_default())
        }
        SubsessionEvent::Resolved { action_id, resolution, detail } => {
            format!("resolved {action_id} {resolution:?}: {detail}")
        }
    }
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Write(write) => {
            let before = write.before.map_or("no file".to_owned(), short);
            format!("{}: {before} to {}", write.path.display(), short(write.after))
        }
        Effect::Command { argv, .. } => argv.join(" "),
        Effect::Subsession { subsession_id } => subsession_id.to_string(),
        Effect::Remove(removal) => {
            format!("{}: {} to no file", removal.path.display(), short(removal.before))
        }
    }
}

fn outcome(receipt: &Receipt) -> String {
    let what = match &receipt.facts {
        Facts::None => receipt.content.clone(),
        Facts::Observed(version) => format!("saw {} as {}", version.path, short(version.sha256)),
        Facts::Wrote { after, .. } => format!("wrote {} as {}", after.path, short(after.sha256)),
        Facts::Ran(run) => format!("{:?}", run.end),
        Facts::Removed(version) => format!("removed {}, which was {}", version.path, short(version.sha256)),
    };
    let verdict = if receipt.is_error { "error: " } else { "" };
    format!("{} {verdict}{what}", receipt.action_id)
}

fn short(digest: Digest) -> String {
    digest.to_string().chars().take(DIGEST_CHARS).collect()
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

const fn said(branch: BranchFate) -> &'static str {
    match branch {
        BranchFate::Deleted => "deleted",
        BranchFate::WasGone => "gone before",
    }
}
