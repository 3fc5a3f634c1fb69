//! The pending turn: what is new since the one before, within its bound.

use protocol::{
    action::Resolution,
    failure::ToolErrorCode,
    id::TurnId,
    limits::{PROMPT_PREVIEW_BYTES, RECEIPT_BYTES, REPLY_BYTES},
    tool::ToolName,
    turn::Turn,
};

use super::{
    super::{
        state::{ActionRecord, Progress, Run, State},
        view::{PendingTurn, RecoveredAction, ToolResult, ToolView, TurnLimits},
    },
    cut::{self, Whole},
};
use crate::skill;

/// Rough size of a result beside its text: ids, names, flags.
const ENVELOPE_BYTES: usize = 128;

pub(super) fn view(state: &State, turn: &Turn, turn_bytes: usize) -> PendingTurn {
    let first = turn.sequence == 1;
    let run = state.run.as_ref();
    let prompt = run.filter(|_| first).map(prompt);
    let tools = first.then(|| tools(state));
    // The instructions themselves are put in for ChatGPT alone, when the view leaves for it.
    let skills: usize = if first { state.birth.skills.iter().map(skill::shown_bytes).sum() } else { 0 };
    let used = prompt.as_ref().map_or(0, String::len) + tools.as_deref().map_or(0, size) + skills;
    let room = turn_bytes.saturating_sub(used);
    PendingTurn {
        turn_id: turn.turn_id.to_string(),
        run_id: turn.run_id.to_string(),
        sequence: turn.sequence,
        prompt,
        skill_instructions: None,
        tool_results: run.and_then(|run| results(run, turn.answers, room)),
        tools,
        tools_same_as: run.filter(|_| !first).and_then(|run| run.first_turn).map(|id| id.to_string()),
        limits: TurnLimits {
            reply_bytes: REPLY_BYTES as u64,
            result_bytes: RECEIPT_BYTES as u64,
            turn_bytes: turn_bytes as u64,
        },
        recovered_actions: (first && !state.lost.is_empty()).then(|| recovered(&state.lost, room)),
    }
}

fn prompt(run: &Run) -> String {
    match cut::head(&run.prompt, PROMPT_PREVIEW_BYTES) {
        (whole, true) => whole.to_owned(),
        (head, false) => {
            let rest = run.prompt.len() - head.len();
            format!("{head}[… {rest} more bytes of the prompt are not shown; Claude Code has all of it]")
        }
    }
}

fn tools(state: &State) -> Vec<ToolView> {
    ToolName::allowed(state.birth.profile, state.birth.subagent_policy)
        .into_iter()
        .map(|tool| ToolView {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            input_schema: tool.input_schema(),
        })
        .collect()
}

fn size(tools: &[ToolView]) -> usize {
    tools.iter().map(|t| t.name.len() + t.description.len() + t.input_schema.to_string().len()).sum()
}

fn results(run: &Run, answers: Option<TurnId>, room: usize) -> Option<Vec<ToolResult>> {
    let answer = run.answer.as_ref().filter(|answer| answers == Some(answer.reply.turn_id))?;
    if answer.actions.is_empty() {
        return None;
    }
    let texts: Vec<Whole<'_>> =
        answer.actions.iter().map(|a| Whole { text: text(a), rest: rest(a.tool) }).collect();
    let shown = cut::share(&texts, room.saturating_sub(answer.actions.len() * ENVELOPE_BYTES));
    let results = answer.actions.iter().zip(shown).map(|(action, content)| ToolResult {
        action_id: action.action_id.to_string(),
        tool: action.tool.name().to_owned(),
        is_error: action.receipt().is_none_or(|receipt| receipt.is_error),
        content,
    });
    Some(results.collect())
}

/// What the action's receipt says; where there is none, that.
fn text(action: &ActionRecord) -> &str {
    match &action.progress {
        Progress::Done(receipt) => &receipt.content,
        Progress::Authorized => "not run: Claude Code went on without running this call",
        Progress::Prepared(_) => {
            "begun, and its result is not there: look at what it changed before going on"
        }
        Progress::Resolved(_) => "interrupted: there is no result",
    }
}

const fn rest(tool: ToolName) -> &'static str {
    match tool {
        ToolName::Read => "call Read again with offset and limit for the rest",
        ToolName::FindFiles => "call FindFiles again with a narrower directory, glob or limit",
        ToolName::SearchText => "call SearchText again with a narrower path, glob, query or limit",
        ToolName::RunCommand => "run a command that prints less, or write its output to a file and Read that",
        ToolName::Edit | ToolName::Write | ToolName::NotebookEdit => "call Read on the file to see it",
        ToolName::SubagentStart | ToolName::SubagentGet | ToolName::SubagentStop => {
            "call deepseek_subagent_get again"
        }
    }
}

fn recovered(lost: &[ActionRecord], room: usize) -> Vec<RecoveredAction> {
    let texts: Vec<Whole<'_>> = lost
        .iter()
        .map(|action| Whole {
            text: action.receipt().map_or("", |receipt| receipt.content.as_str()),
            rest: "call the tool again where it only reads",
        })
        .collect();
    let shown = cut::share(&texts, room.saturating_sub(lost.len() * ENVELOPE_BYTES));
    let recovered = lost.iter().zip(shown).map(|(action, content)| RecoveredAction {
        action_id: action.action_id.to_string(),
        tool: action.tool.name().to_owned(),
        outcome: outcome(action),
        receipt: action.receipt().map(|_| content),
    });
    recovered.collect()
}

fn outcome(action: &ActionRecord) -> Resolution {
    match &action.progress {
        Progress::Done(receipt) => match receipt.error {
            None => Resolution::Applied,
            // Said of what was interfered with, or broke off half-way.
            Some(ToolErrorCode::Indeterminate | ToolErrorCode::Internal) => Resolution::Indeterminate,
            // Any other error proves that nothing was changed.
            Some(_) => Resolution::NotApplied,
        },
        Progress::Resolved(resolution) => *resolution,
        Progress::Authorized => Resolution::NotStarted,
        Progress::Prepared(_) => Resolution::Indeterminate,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol::{
        id::ActionId,
        receipt::{Facts, Receipt},
        timestamp::Timestamp,
    };

    use super::*;

    #[test]
    fn a_receipt_that_knows_no_outcome_is_not_told_as_one() {
        for (error, told) in [
            (None, Resolution::Applied),
            (Some(ToolErrorCode::StaleRead), Resolution::NotApplied),
            (Some(ToolErrorCode::NotApplied), Resolution::NotApplied),
            (Some(ToolErrorCode::Indeterminate), Resolution::Indeterminate),
            (Some(ToolErrorCode::Internal), Resolution::Indeterminate),
        ] {
            let action_id = ActionId::mint();
            let receipt = Receipt {
                action_id,
                began_at: Timestamp(1),
                ended_at: Timestamp(2),
                error,
                is_error: error.is_some(),
                content: String::new(),
                facts: Facts::None,
            };
            let progress = Progress::Done(Arc::new(receipt));
            assert_eq!(
                outcome(&ActionRecord { action_id, tool: ToolName::Edit, progress }),
                told,
                "{error:?}"
            );
        }
    }
}
