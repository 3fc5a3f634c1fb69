//! Sub-sessions: what their records add up to, and what may still happen in one.
//!
//! Invariant: one at most is active. It is from the record that begins it until the record of its end, whatever dies between.
//! Invariant: its end is recorded with or after the outcome of its last action.

use std::collections::BTreeMap;

use protocol::{
    action::{Action, Effect, Prepared, Resolution},
    digest::Digest,
    id::{ActionId, SubsessionId},
    receipt::{Facts, Receipt},
    subagent::{ChangedFile, SubsessionEnd, SubsessionEvent, SubsessionState, SubsessionSummary, Tier},
    timestamp::Timestamp,
    tool::ToolInput,
};

use super::{
    Progress, State,
    loss::{Findings, resolution},
};
use crate::ledger::record::Entry;

/// A delegated task.
#[derive(Debug, Clone)]
pub(crate) struct Subsession {
    /// Its id.
    pub(crate) id: SubsessionId,
    /// The action that began it.
    pub(crate) begun_by: ActionId,
    /// The tier that was asked for.
    pub(crate) tier: Tier,
    /// How it stands.
    pub(crate) state: SubsessionState,
    /// When it was begun.
    pub(crate) started_at: Timestamp,
    /// How and when it ended.
    pub(crate) end: Option<(Timestamp, SubsessionEnd)>,
    /// Its actions that have no outcome yet.
    open: Vec<(Action, Progress)>,
    /// The files that it changed: what stood there before its first change, and what it left.
    files: BTreeMap<String, (Option<Digest>, Digest)>,
}

impl Subsession {
    /// Actions that were interrupted after their preparation.
    pub(super) fn in_doubt(&self) -> Vec<Prepared> {
        let open = self.open.iter().filter_map(|(_, progress)| match progress {
            Progress::Prepared(prepared) => Some((**prepared).clone()),
            Progress::Authorized | Progress::Done(_) | Progress::Resolved(_) => None,
        });
        open.collect()
    }

    /// Actions without an outcome.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = (&Progress, &Action)> {
        self.open.iter().map(|(action, progress)| (progress, action))
    }

    /// What may be told of it.
    pub(crate) fn summary(&self) -> SubsessionSummary {
        let end = self.end.as_ref().map(|(_, end)| end);
        let files = self.files.iter().map(|(path, (before, after))| ChangedFile {
            path: path.clone(),
            before: *before,
            after: *after,
        });
        SubsessionSummary {
            id: self.id,
            state: self.state,
            model: self.tier,
            // Who counted them is gone with a lost one.
            turns: end.filter(|end| end.state != SubsessionState::Lost).map(|end| end.turns),
            reason: end.and_then(|end| end.reason.clone()),
            text: end.and_then(|end| end.text.clone()),
            files: files.collect(),
        }
    }

    const fn entry(&self, event: SubsessionEvent) -> Entry {
        Entry::Subsession { request: None, subsession_id: self.id, event }
    }

    /// What became of its open actions.
    fn resolved(&self, findings: &Findings) -> Vec<Entry> {
        let open = self.open.iter().filter_map(|(action, progress)| {
            let action_id = action.action_id;
            let (resolution, detail) = resolution(action_id, progress, findings)?;
            Some(self.entry(SubsessionEvent::Resolved { action_id, resolution, detail }))
        });
        open.collect()
    }

    fn open_action(&mut self, id: ActionId) -> Option<&mut Progress> {
        self.open.iter_mut().find(|(action, _)| action.action_id == id).map(|(_, progress)| progress)
    }

    fn close_action(&mut self, id: ActionId) {
        self.open.retain(|(action, _)| action.action_id != id);
    }

    fn received(&mut self, receipt: &Receipt) {
        if let Facts::Wrote { before, after } = &receipt.facts {
            let first = self.files.get(&after.path).map_or(*before, |(first, _)| *first);
            self.files.insert(after.path.clone(), (first, after.sha256));
        }
        self.close_action(receipt.action_id);
    }

    /// A change of its was undone, or an undo of one was: the file has this content now, or is gone.
    pub(super) fn undone(&mut self, path: String, (before, after): (Option<Digest>, Option<Digest>)) {
        let first = self.files.get(&path).map_or(before, |(first, _)| *first);
        match after {
            Some(after) if first != Some(after) => drop(self.files.insert(path, (first, after))),
            // As it was before the sub-session.
            Some(_) | None => drop(self.files.remove(&path)),
        }
    }

    /// An interrupted write turned out to be there.
    fn applied(&mut self, root: &std::path::Path, id: ActionId) {
        let Some(Progress::Prepared(prepared)) = self.open_action(id).map(|progress| progress.clone()) else {
            return;
        };
        if let Effect::Write(write) = &prepared.effect {
            let path = root.join(&write.path).to_string_lossy().into_owned();
            let first = self.files.get(&path).map_or(write.before, |(first, _)| *first);
            self.files.insert(path, (first, write.after));
        }
    }
}

impl State {
    /// The sub-session that has the right to write.
    pub(crate) fn active_subsession(&self) -> Option<&Subsession> {
        self.subsessions.iter().find(|sub| sub.state.active())
    }

    /// A preparation that begins a sub-session; any other changes nothing.
    pub(super) fn subsession_begun(&mut self, prepared: &Prepared) {
        let Effect::Subsession { subsession_id } = &prepared.effect else { return };
        let answer = self.run.as_ref().and_then(|run| run.answer.as_ref());
        let asked = answer
            .and_then(|answer| answer.reply.actions.iter().find(|a| a.action_id == prepared.action_id))
            .and_then(|action| ToolInput::parse(action.tool, &action.input.value()).ok());
        let Some(ToolInput::SubagentStart(start)) = asked else { return };
        self.subsessions.push(Subsession {
            id: *subsession_id,
            begun_by: prepared.action_id,
            tier: start.model,
            state: SubsessionState::Starting,
            started_at: prepared.prepared_at,
            end: None,
            open: Vec::new(),
            files: BTreeMap::new(),
        });
    }

    /// The action that begins a sub-session is done: it is at work.
    pub(super) fn subsession_started(&mut self, action_id: ActionId) {
        let begun = self.subsessions.iter_mut().find(|sub| sub.begun_by == action_id);
        if let Some(sub) = begun.filter(|sub| sub.state == SubsessionState::Starting) {
            sub.state = SubsessionState::Running;
        }
    }

    pub(super) fn subsession_event(&mut self, id: SubsessionId, event: &SubsessionEvent, at: Timestamp) {
        let root = self.birth.workspace.root.clone();
        let Some(sub) = self.subsessions.iter_mut().find(|sub| sub.id == id) else { return };
        match event {
            SubsessionEvent::Called(action) => sub.open.push((action.clone(), Progress::Authorized)),
            SubsessionEvent::Prepared(prepared) => {
                if let Some(progress) = sub.open_action(prepared.action_id) {
                    *progress = Progress::Prepared(Box::new(prepared.clone()));
                }
            }
            SubsessionEvent::Receipt(receipt) => sub.received(receipt),
            SubsessionEvent::Ended(end) => {
                sub.state = end.state;
                sub.end = Some((at, end.clone()));
            }
            SubsessionEvent::Resolved { action_id, resolution, .. } => {
                if *resolution == Resolution::Applied {
                    sub.applied(&root, *action_id);
                }
                sub.close_action(*action_id);
                if *resolution == Resolution::Indeterminate {
                    self.trouble.indeterminate.push(*action_id);
                }
            }
        }
    }

    /// Whether a worker may have this recorded.
    pub(super) fn may_happen(&self, id: SubsessionId, event: &SubsessionEvent) -> Result<(), &'static str> {
        let sub = self.subsessions.iter().find(|sub| sub.id == id).ok_or("no such sub-session was begun")?;
        if !sub.state.active() {
            return Err("the sub-session is over");
        }
        let open = |id: ActionId| {
            let found = sub.open.iter().find(|(action, _)| action.action_id == id);
            found.map(|(_, progress)| progress).ok_or("the sub-session has no such open action")
        };
        match event {
            SubsessionEvent::Called(action) => match open(action.action_id) {
                Ok(_) => Err("the sub-session made this call before"),
                Err(_) => Ok(()),
            },
            SubsessionEvent::Prepared(prepared) => match open(prepared.action_id)? {
                Progress::Authorized => Ok(()),
                Progress::Prepared(_) | Progress::Done(_) | Progress::Resolved(_) => {
                    Err("the action was prepared before")
                }
            },
            SubsessionEvent::Receipt(receipt) => match (open(receipt.action_id)?, &receipt.facts) {
                (Progress::Authorized, Facts::Wrote { .. } | Facts::Ran(_) | Facts::Removed(_)) => {
                    Err("its effect was never prepared")
                }
                _ => Ok(()),
            },
            SubsessionEvent::Ended(_) if !sub.open.is_empty() => {
                Err("an action of the sub-session has no outcome yet")
            }
            SubsessionEvent::Ended(end) if end.state.active() => Err("an end is no state of work"),
            SubsessionEvent::Ended(_) => Ok(()),
            SubsessionEvent::Resolved { .. } => Err("a worker resolves nothing"),
        }
    }

    /// The outcome of every open action of a sub-session, once its worker is gone and nothing of it can act any more.
    pub(crate) fn resolve_subsession(&self, id: SubsessionId, findings: &Findings) -> Vec<Entry> {
        let active = self.subsessions.iter().find(|sub| sub.id == id && sub.state.active());
        active.map_or_else(Vec::new, |sub| sub.resolved(findings))
    }

    /// The end of sub-sessions whose worker is gone: first the outcome of every open action, then the loss.
    pub(super) fn lose_subsessions(&self, findings: &Findings) -> Vec<Entry> {
        let mut entries = Vec::new();
        for sub in self.subsessions.iter().filter(|sub| sub.state.active()) {
            entries.extend(sub.resolved(findings));
            entries.push(sub.entry(SubsessionEvent::Ended(SubsessionEnd {
                state: SubsessionState::Lost,
                reason: Some("the process that carried it is gone".to_owned()),
                text: None,
                turns: 0,
            })));
        }
        entries
    }
}
