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
    action::{Action, Prepared},
    crash,
    failure::ToolErrorCode,
    receipt::Receipt,
    timestamp::Timestamp,
    tool::{RunCommand, ToolInput, ToolKind, ToolName},
};
use sandbox_profiles::Protected;
use tokio::runtime::Handle;

use super::{
    authorize::Authorized,
    find_files,
    outcome::{ToolFailure, ToolOutcome},
    read,
    run_command::Commands,
    search_text,
    writing::{Barrier, Change, Writing},
};
use crate::{link::recorder::Recorder, subagent::Delegates};

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
    /// None only where a test has no use for them.
    commands: Option<Arc<Commands>>,
    /// None where the session's profile writes nothing.
    writing: Option<Arc<Writing>>,
    /// None where the session delegates nothing.
    delegates: Option<Delegates>,
    /// Hears of every durable receipt.
    told: Option<Told>,
}

/// Hears of receipts.
#[derive(Clone)]
struct Told(Arc<dyn Fn(&Receipt) + Send + Sync>);

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

impl Tools {
    pub(crate) fn new(surroundings: Surroundings) -> Self {
        Self {
            surroundings: Arc::new(surroundings),
            commands: None,
            writing: None,
            delegates: None,
            told: None,
        }
    }

    /// The same tools, which also run commands.
    #[must_use]
    pub(crate) fn with_commands(mut self, commands: Commands) -> Self {
        self.commands = Some(Arc::new(commands));
        self
    }

    /// The same tools, which also change files.
    #[must_use]
    pub(crate) fn with_writing(mut self, writing: Writing) -> Self {
        self.writing = Some(Arc::new(writing));
        self
    }

    /// The same tools, which also delegate where there is something to delegate to.
    #[must_use]
    pub(crate) fn with_delegates(mut self, delegates: Option<Delegates>) -> Self {
        self.delegates = delegates;
        self
    }

    /// The same tools, which tell of every durable receipt.
    #[must_use]
    pub(crate) fn telling(mut self, told: impl Fn(&Receipt) + Send + Sync + 'static) -> Self {
        self.told = Some(Told(Arc::new(told)));
        self
    }

    /// Whether this executor carries the tool out. What it does not carry out is not offered.
    pub(crate) const fn offers(tool: ToolName) -> bool {
        match tool.kind() {
            ToolKind::Reads | ToolKind::Runs | ToolKind::Writes | ToolKind::Delegates => true,
        }
    }

    /// Carries an action out. Tools with effects record what they prepare before they have it.
    pub(crate) async fn run(
        &self,
        action: &Authorized<Action>,
        input: ToolInput,
        recorder: &Recorder,
    ) -> ToolOutcome {
        match input {
            ToolInput::Read(input) => self.blocking(move |around| read::read(&input, around)).await,
            ToolInput::FindFiles(input) => {
                self.blocking(move |around| find_files::find_files(&input, around)).await
            }
            ToolInput::SearchText(input) => {
                self.blocking(move |around| search_text::search_text(&input, around)).await
            }
            ToolInput::RunCommand(input) => self
                .run_command(action.get(), input, recorder)
                .await
                .unwrap_or_else(|failure| ToolOutcome::failed(&failure)),
            ToolInput::Edit(input) => self.write(action.get(), Change::Edit(input), recorder).await,
            ToolInput::Write(input) => self.write(action.get(), Change::Write(input), recorder).await,
            ToolInput::NotebookEdit(input) => {
                self.write(action.get(), Change::Notebook(input), recorder).await
            }
            ToolInput::SubagentStart(_) | ToolInput::SubagentGet(_) | ToolInput::SubagentStop(_) => {
                let delegated = self.delegate(action.get(), input, recorder).await;
                delegated.unwrap_or_else(|failure| ToolOutcome::failed(&failure))
            }
        }
    }

    async fn delegate(
        &self,
        action: &Action,
        input: ToolInput,
        recorder: &Recorder,
    ) -> Result<ToolOutcome, ToolFailure> {
        match (&self.delegates, input) {
            (Some(delegates), ToolInput::SubagentStart(input)) => {
                delegates.start(action, input, recorder).await
            }
            (Some(delegates), ToolInput::SubagentGet(input)) => delegates.get(&input.id).await,
            (Some(delegates), ToolInput::SubagentStop(input)) => delegates.stop(&input.id).await,
            (_, _) => {
                let why = format!("calling {}: this session delegates nothing", action.tool.name());
                Err(ToolFailure::new(ToolErrorCode::Internal, why))
            }
        }
    }

    /// Plans, records the plan, and runs what was recorded.
    async fn run_command(
        &self,
        action: &Action,
        input: RunCommand,
        recorder: &Recorder,
    ) -> Result<ToolOutcome, ToolFailure> {
        let Some(commands) = self.commands.clone() else {
            let why = "running a command: this session has no cage for commands; nothing was run";
            return Err(ToolFailure::new(ToolErrorCode::Internal, why));
        };
        let (planning, around) = (Arc::clone(&commands), Arc::clone(&self.surroundings));
        let plan = tokio::task::spawn_blocking(move || planning.plan(input, &around));
        let plan = plan.await.map_err(|_| fault())??;
        let prepared =
            Prepared { action_id: action.action_id, prepared_at: Timestamp::now(), effect: plan.effect() };
        let recorded = recorder.prepared(prepared).await.map_err(|ends| {
            ToolFailure::new(ToolErrorCode::NotApplied, format!("running a command: {ends}; nothing was run"))
        })?;
        let around = Arc::clone(&self.surroundings);
        crash::point("worker-before-command");
        let run = tokio::task::spawn_blocking(move || commands.run(plan, &recorded, &around));
        let outcome = run.await.map_err(|_| fault());
        crash::point("worker-after-command");
        outcome
    }

    /// Takes in what a durable receipt proves about the project's files.
    pub(crate) fn note(&self, receipt: &Receipt) {
        if let Some(writing) = &self.writing {
            writing.observed.note(receipt);
        }
        if let Some(Told(told)) = &self.told {
            told(receipt);
        }
    }

    /// Makes ready for the session's next change, while nobody waits for anything.
    pub(crate) fn prepare(&self) {
        if let Some(writing) = self.writing.clone().filter(|writing| !writing.versions.is_prepared()) {
            // Nobody waits for it either.
            drop(tokio::task::spawn_blocking(move || writing.versions.prepare()));
        }
    }

    async fn write(&self, action: &Action, change: Change, recorder: &Recorder) -> ToolOutcome {
        let Some(writing) = self.writing.clone() else {
            return ToolOutcome::failed(&ToolFailure::new(
                ToolErrorCode::Internal,
                format!("calling {}: this session writes nothing; nothing was done", action.tool.name()),
            ));
        };
        let action_id = action.action_id;
        let barrier = Barrier { recorder: recorder.clone(), runtime: Handle::current() };
        self.blocking(move |around| writing.carry_out((action_id, &change), &around.protected, &barrier))
            .await
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
    ToolOutcome::failed(&fault())
}

fn fault() -> ToolFailure {
    ToolFailure::new(
        ToolErrorCode::Internal,
        "the tool stopped on a fault of its own; look at what it was asked for and try another way",
    )
}
