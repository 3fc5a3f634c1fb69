//! What is to be recorded when a worker or its Claude Code is gone.

use std::collections::HashMap;

use protocol::{
    action::{Effect, Resolution},
    failure::ErrorCode,
    id::ActionId,
    session::RunOutcome,
    tool::ToolKind,
};

use super::{ActionRecord, Life, Progress, State};
use crate::{ledger::record::Entry, supervisor::clear::Leftover};

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
            .collect()
    }

    /// Writes that have no receipt: what they may have left beside their files is to be cleared up.
    pub(crate) fn left_behind(&self) -> Vec<Leftover> {
        let Some(answer) = self.open_run().and_then(|run| run.answer.as_ref()) else { return Vec::new() };
        let writes = answer.actions.iter().zip(&answer.reply.actions);
        writes
            .filter(|(_, asked)| asked.tool.kind() == ToolKind::Writes)
            .filter_map(|(action, asked)| match &action.progress {
                Progress::Authorized => {
                    let input = asked.input.value();
                    let path = ["file_path", "notebook_path"].iter().find_map(|name| input[name].as_str())?;
                    Some(Leftover { action_id: action.action_id, path: path.into(), write: None })
                }
                Progress::Prepared(prepared) => match &prepared.effect {
                    Effect::Write(write) => Some(Leftover {
                        action_id: action.action_id,
                        path: write.path.clone(),
                        write: Some(write.clone()),
                    }),
                    Effect::Command { .. } | Effect::Subsession { .. } => None,
                },
                Progress::Done(_) | Progress::Resolved(_) => None,
            })
            .collect()
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
        let mut entries = if carried { self.lose_run(findings) } else { Vec::new() };
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

fn resolved(action: &ActionRecord, findings: &Findings) -> Option<Entry> {
    let (resolution, detail) = match &action.progress {
        Progress::Done(_) | Progress::Resolved(_) => return None,
        Progress::Authorized => (Resolution::NotStarted, "authorized and never prepared".to_owned()),
        Progress::Prepared(_) => findings
            .get(&action.action_id)
            .cloned()
            .unwrap_or((Resolution::Indeterminate, "nobody could look at what it did".to_owned())),
    };
    Some(Entry::Resolved { action_id: action.action_id, resolution, detail })
}
