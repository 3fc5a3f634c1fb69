//! The tools of a session: what each needs, and the one place that calls them.
//!
//! Invariant: blocking work runs off the worker's loop, and a tool that panics is an error of that one action.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use protocol::{
    action::Action,
    failure::ToolErrorCode,
    tool::{ToolInput, ToolKind, ToolName},
};
use sandbox_profiles::Protected;

use super::{
    authorize::Authorized,
    find_files,
    outcome::{ToolFailure, ToolOutcome},
    read, search_text,
};

/// Raised when the session ends: long work looks at it and gives up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks all work of the session to end.
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether work should end.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the tools of one session share.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// Canonical working directory: where searches start by default.
    pub(crate) working_directory: PathBuf,
    /// What no tool shows.
    pub(crate) protected: Protected,
    /// Raised when the session ends.
    pub(crate) stop: Stop,
}

impl Surroundings {
    /// The path that was asked for, or the working directory.
    pub(crate) fn place<'a>(&'a self, asked: Option<&'a str>) -> &'a Path {
        asked.map_or(&self.working_directory, Path::new)
    }
}

/// The tools. A clone is the same set of tools.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    surroundings: Arc<Surroundings>,
}

impl Tools {
    pub(crate) fn new(surroundings: Surroundings) -> Self {
        Self { surroundings: Arc::new(surroundings) }
    }

    /// Whether this executor carries the tool out. What it does not carry out is not offered.
    pub(crate) const fn offers(tool: ToolName) -> bool {
        match tool.kind() {
            ToolKind::Reads => true,
            ToolKind::Runs | ToolKind::Writes | ToolKind::Delegates => false,
        }
    }

    /// Carries an action out. Tools with effects record what they prepare before they have it.
    pub(crate) async fn run(&self, action: &Authorized<Action>, input: ToolInput) -> ToolOutcome {
        match input {
            ToolInput::Read(input) => self.blocking(move |around| read::read(&input, around)).await,
            ToolInput::FindFiles(input) => {
                self.blocking(move |around| find_files::find_files(&input, around)).await
            }
            ToolInput::SearchText(input) => {
                self.blocking(move |around| search_text::search_text(&input, around)).await
            }
            ToolInput::RunCommand(_)
            | ToolInput::Edit(_)
            | ToolInput::Write(_)
            | ToolInput::NotebookEdit(_)
            | ToolInput::SubagentStart(_)
            | ToolInput::SubagentGet(_)
            | ToolInput::SubagentStop(_) => ToolOutcome::failed(&ToolFailure::new(
                ToolErrorCode::Internal,
                format!(
                    "calling {}: this release does not have the tool; nothing was done",
                    action.get().tool.name()
                ),
            )),
        }
    }

    async fn blocking(
        &self,
        work: impl FnOnce(&Surroundings) -> Result<ToolOutcome, ToolFailure> + Send + 'static,
    ) -> ToolOutcome {
        let surroundings = Arc::clone(&self.surroundings);
        match tokio::task::spawn_blocking(move || work(&surroundings)).await {
            Ok(result) => result.into(),
            Err(_) => panicked(),
        }
    }
}

/// The outcome of a tool whose work panicked; the panic itself is in the log.
pub(crate) fn panicked() -> ToolOutcome {
    ToolOutcome::failed(&ToolFailure::new(
        ToolErrorCode::Internal,
        "the tool stopped on a fault of its own; look at what it was asked for and try another way",
    ))
}
