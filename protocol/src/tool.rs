//! The tools inside a session: their names, who may use them, and their inputs.
//!
//! Invariant: an input that parses here is complete and within its bounds; what is left to find out is the world's answer.

mod describe;
mod input;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use input::{
    CellType, Edit, EditMode, FileKind, FindFiles, NotebookEdit, Read, RunCommand, SearchText, SubagentGet,
    SubagentStart, SubagentStop, Write,
};

use crate::profile::{Profile, SubagentPolicy};

/// A tool's name, as ChatGPT and Claude Code know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ToolName {
    /// Reads a text file.
    Read,
    /// Lists files.
    FindFiles,
    /// Finds a literal text.
    SearchText,
    /// Runs a command behind the walls.
    RunCommand,
    /// Replaces a text in a file.
    Edit,
    /// Writes a whole file.
    Write,
    /// Changes one cell of a notebook.
    NotebookEdit,
    /// Delegates a task.
    #[serde(rename = "deepseek_subagent_start")]
    SubagentStart,
    /// Looks at a delegated task.
    #[serde(rename = "deepseek_subagent_get")]
    SubagentGet,
    /// Ends a delegated task.
    #[serde(rename = "deepseek_subagent_stop")]
    SubagentStop,
}

impl ToolName {
    /// Every tool, in the order in which they are shown.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::FindFiles,
        Self::SearchText,
        Self::RunCommand,
        Self::Edit,
        Self::Write,
        Self::NotebookEdit,
        Self::SubagentStart,
        Self::SubagentGet,
        Self::SubagentStop,
    ];

    /// The name as it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::FindFiles => "FindFiles",
            Self::SearchText => "SearchText",
            Self::RunCommand => "RunCommand",
            Self::Edit => "Edit",
            Self::Write => "Write",
            Self::NotebookEdit => "NotebookEdit",
            Self::SubagentStart => "deepseek_subagent_start",
            Self::SubagentGet => "deepseek_subagent_get",
            Self::SubagentStop => "deepseek_subagent_stop",
        }
    }

    /// The tool with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// What a call of it can do to the world: neighbours that only read may overlap.
    #[must_use]
    pub const fn kind(self) -> ToolKind {
        match self {
            Self::Read | Self::FindFiles | Self::SearchText => ToolKind::Reads,
            Self::RunCommand => ToolKind::Runs,
            Self::Edit | Self::Write | Self::NotebookEdit => ToolKind::Writes,
            Self::SubagentStart | Self::SubagentGet | Self::SubagentStop => ToolKind::Delegates,
        }
    }

    /// The tools of a session, in the order in which they are shown.
    #[must_use]
    pub fn allowed(profile: Profile, policy: SubagentPolicy) -> Vec<Self> {
        let may = |tool: &Self| match tool.kind() {
            ToolKind::Reads | ToolKind::Runs => true,
            ToolKind::Writes => profile.writes(),
            ToolKind::Delegates => {
                policy == SubagentPolicy::DeepseekExplicit && profile == Profile::WorktreeWrite
            }
        };
        Self::ALL.into_iter().filter(may).collect()
    }

    /// The JSON schema of its input, plain and self-contained.
    #[must_use]
    pub fn input_schema(self) -> Value {
        describe::input_schema(self)
    }

    /// One paragraph for the model that uses it.
    #[must_use]
    pub const fn description(self) -> &'static str {
        describe::description(self)
    }
}

/// What a tool can do to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Only reads.
    Reads,
    /// Runs a command; nothing outside the scratch changes.
    Runs,
    /// Changes files below the root.
    Writes,
    /// Starts, asks or ends a sub-session.
    Delegates,
}

/// An input that is complete and within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolInput {
    /// Input of `Read`.
    Read(Read),
    /// Input of `FindFiles`.
    FindFiles(FindFiles),
    /// Input of `SearchText`.
    SearchText(SearchText),
    /// Input of `RunCommand`.
    RunCommand(RunCommand),
    /// Input of `Edit`.
    Edit(Edit),
    /// Input of `Write`.
    Write(Write),
    /// Input of `NotebookEdit`.
    NotebookEdit(NotebookEdit),
    /// Input of `deepseek_subagent_start`.
    SubagentStart(SubagentStart),
    /// Input of `deepseek_subagent_get`.
    SubagentGet(SubagentGet),
    /// Input of `deepseek_subagent_stop`.
    SubagentStop(SubagentStop),
}

/// Why an input is not one of its tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the input of {tool} is not valid: {reason}", tool = tool.name())]
pub struct InvalidInput {
    /// The tool.
    pub tool: ToolName,
    /// Which field, and why.
    pub reason: String,
}

impl ToolInput {
    /// Reads the input of `tool`.
    ///
    /// # Errors
    /// Names the field that is missing, unknown, of the wrong type or out of bounds.
    pub fn parse(tool: ToolName, value: &Value) -> Result<Self, InvalidInput> {
        input::parse(tool, value).map_err(|reason| InvalidInput { tool, reason })
    }
}
