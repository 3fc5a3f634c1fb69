//! What is to be recorded when a worker or its Claude Code is gone.

use std::collections::HashMap;

use protocol::{
    action::{Action, Resolution},
    failure::ErrorCode,
    id::ActionId,
    session::RunOutcome,
    tool::ToolKind,
};

use super::{ActionRecord, Life, Progress, State, Subsession};
use crate::{
    ledger::record::Entry,
    supervisor::clear::{Leftover, PreparedChange},
};

/// What was found out about the interrupted actions that had been prepared.
pub(crate) type Findings = HashMap<ActionId, (Resolution, String)>;

impl State {
    /// Actions that were interrupted after their preparation: their effect may be there.
    pub(crate) fn in_doubt(&self) -> Vec<protocol::action::Prepared> {
        let unresolved = self.run.iter().filter(|run| run.outcome == RunOutcome::Running);
        let actions = unresolved.flat_map(|run| &run.answer).flat_map(|answer| &answer.actions);
        actions
            .filter_map(|action| match &action.progress {
                Progress::Prepared(prepared) => Some((**prepared).clone()),
                Progress::Authorized | Progress::Done(_) | Progress::Resolved(_) => None,
            })
            .chain(self.subsessions.iter().flat_map(Subsession::in_doubt))
            .collect()
    }

    /// Writes that have no receipt: what they may have left beside their files is to be cleared up.
    pub(crate) fn left_behind(&self) -> Vec<Leftover> {
        let own = self.open_run().and_then(|run| run.answer.as_ref()).into_iter();
        let own = own.flat_map(|answer| {
            answer.actions.iter().map(|action| &action.progress).zip(&answer.reply.actions)
        });
        let delegated = self.subsessions.iter().flat_map(Subsession::unresolved);
        own.chain(delegated).filter_map(|(progress, asked)| leftover(progress, asked)).collect()
    }

    /// The end of the open run whose process is gone: every action is resolved, and the run is over.
    ///
    /// A run whose final answer is recorded has its result: it is finished, not lost.
    pub(crate) fn lose_run(&self, findings: &Findings) -> Vec<Entry> {
        let Some(run) = self.open_run() else { return Vec::new() };
        let mut entries: Vec<Entry> = run
            .answer
            .iter()
            .flat_map(|answer| &answer.actions)
            .filter_map(|action| resolved(action, findings))
            .collect();
        let answered = run.open.is_none() && run.answer.as_ref().is_some_and(|a| a.reply.is_final());
        let outcome = match self.life {
            _ if answered => RunOutcome::Finished,
            Life::Stopping(_) | Life::Stopped(_) => RunOutcome::Stopped,
            Life::Live | Life::LeaseExpired => RunOutcome::Lost,
        };
        entries.push(Entry::RunEnded { request: None, run_id: run.run_id, outcome, detail: None });
        entries
    }

    /// The end of a worker.
    pub(crate) fn lose_worker(&self, detail: &str, findings: &Findings) -> Vec<Entry> {
        let Some(launch) = self.launch() else { return self.lose_run(findings) };
        let carried = self.open_run().is_some_and(|run| run.launch == Some(launch.number));
        let mut entries = self.lose_subsessions(findings);
        entries.extend(if carried { self.lose_run(findings) } else { Vec::new() });
        entries.push(Entry::WorkerGone { launch: launch.number, detail: detail.to_owned() });
        entries
    }

    /// A start that failed before its first turn.
    pub(crate) fn fail_launch(&self, code: ErrorCode, message: String) -> Vec<Entry> {
        let stopping = matches!(self.life, Life::Stopping(_) | Life::Stopped(_));
        match self.launch() {
            Some(launch) if !stopping && self.open_run().is_some_and(|run| run.turns == 0) => {
                vec![Entry::LaunchFailed { launch: launch.number, code, message }]
            }
            Some(_) | None => self.lose_run(&Findings::new()),
        }
    }
}

/// What a write that came this far may have left.
fn leftover(progress: &Progress, asked: &Action) -> Option<Leftover> {
    if asked.tool.kind() != ToolKind::Writes {
        return None;
    }
    let action_id = asked.action_id;
    match progress {
        Progress::Authorized => {
            let input = asked.input.value();
            let path = ["file_path", "notebook_path"].iter().find_map(|name| input[name].as_str())?;
            Some(Leftover { action_id, path: path.into(), prepared: None })
        }
        Progress::Prepared(prepared) => {
            let change = PreparedChange::of(&prepared.effect)?;
            Some(Leftover { action_id, path: change.path().to_owned(), prepared: Some(change) })
        }
        Progress::Done(_) | Progress::Resolved(_) => None,
    }
}

fn resolved(action: &ActionRecord, findings: &Findings) -> Option<Entry> {
    let (resolution, detail) = resolution(action.action_id, &action.progress, findings)?;
    Some(Entry::Resolved { action_id: action.action_id, resolution, detail })
}

/// What became of an interrupted action; none where that is known already.
pub(super) fn resolution(
    action_id: ActionId,
    progress: &Progress,
    findings: &Findings,
) -> Option<(Resolution, String)> {
    match progress {
        Progress::Done(_) | Progress::Resolved(_) => None,
        Progress::Authorized => Some((Resolution::NotStarted, "authorized and never prepared".to_owned())),
        Progress::Prepared(_) => Some(
            findings
                .get(&action_id)
                .cloned()
                .unwrap_or((Resolution::Indeterminate, "nobody could look at what it did".to_owned())),
        ),
    }
}
