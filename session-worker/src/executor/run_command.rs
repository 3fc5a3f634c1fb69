//! `RunCommand`: any installed command, behind the walls, with its exact arguments.
//!
//! `plan` decides and has no effect; its plan is recorded; `run` starts nothing but a recorded plan.
//!
//! Invariant: a command has no network, writes its scratch alone, and none of its processes outlives it [X4, P2].
//! Invariant: without a cage there is no command; there is no other way to start one.

mod environment;
mod git;
mod note;
mod output;
mod program;
mod refusal;
mod running;
mod scratch;
#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use protocol::{
    action::{Effect, Prepared},
    failure::ToolErrorCode,
    limits::COMMAND,
    recorded::Recorded,
    tool::RunCommand,
};
use sandbox_profiles::{
    AbsolutePath, Execution, SandboxSpec, WallError,
    launch::{CommandCages, Helper, Program, spawn_command, spawn_command_without_input},
};

use self::{environment::Environment, scratch::Scratch};
use super::{
    outcome::{ToolFailure, ToolOutcome},
    paths::{self, Wanted},
    tools::Surroundings,
};

/// Where and with what a session's commands run.
#[derive(Debug, Clone)]
pub(crate) struct CommandSettings {
    /// The session's scratch. Its siblings are other sessions'.
    pub(crate) scratch: PathBuf,
    /// What the supervisor passes on: `PATH`, `LANG`, `TZ`, and where toolchains are.
    pub(crate) environment: Vec<(String, String)>,
    /// How cages are built.
    pub(crate) helper: Helper,
}

/// The commands of one session.
#[derive(Debug)]
pub(crate) struct Commands {
    cages: Mutex<Arc<CommandCages>>,
    helper: Helper,
    scratch: Scratch,
    environment: Environment,
    model_clients: Vec<AbsolutePath>,
    git: git::Neutral,
}

/// A command that is allowed and found, and not yet run.
#[derive(Debug)]
pub(crate) struct Plan {
    argv: Vec<String>,
    program: AbsolutePath,
    cwd: AbsolutePath,
    timeout: Duration,
    stdin: Option<String>,
}

impl Plan {
    /// What is recorded before it runs.
    pub(crate) fn effect(&self) -> Effect {
        Effect::Command { argv: self.argv.clone(), cwd: self.cwd.to_path_buf() }
    }
}

impl Commands {
    /// Makes the scratch and the cages.
    ///
    /// # Errors
    /// Where a wall can't be built here: then the session must not start.
    pub(crate) fn open(settings: CommandSettings) -> Result<Self, WallError> {
        let scratch = Scratch::make(&settings.scratch)
            .map_err(|source| WallError::Build { step: "making the session's scratch".into(), source })?;
        let environment = Environment::new(&settings, &scratch);
        let model_clients = program::model_clients(environment.search_path());
        let cages = CommandCages::open(&settings.helper)?;
        let commands = Self {
            cages: Mutex::new(Arc::new(cages)),
            helper: settings.helper,
            scratch,
            environment,
            model_clients,
            git: git::Neutral::default(),
        };
        commands.cages().rehearse(&commands.spec(Vec::new()))?;
        Ok(commands)
    }

    /// Decides whether a command may run, and finds its program. Has no effect.
    ///
    /// # Errors
    /// Refused, not found, or its directory can't be used.
    pub(crate) fn plan(&self, input: RunCommand, around: &Surroundings) -> Result<Plan, ToolFailure> {
        let opened = paths::open(around.place(input.cwd.as_deref()), Wanted::Directory, &around.protected)?;
        let search = self.environment.search_path();
        refusal::judge(&input.argv, |name| program::hops(name, &opened.path, search))?;
        let program = program::find(&input.argv[0], &opened.path, search)?;
        let cwd = AbsolutePath::new(opened.path)
            .map_err(|error| ToolFailure::new(ToolErrorCode::InvalidArgument, error.to_string()))?;
        Ok(Plan {
            argv: input.argv,
            program,
            cwd,
            timeout: input.timeout_seconds.map_or(COMMAND, Duration::from_secs),
            stdin: input.stdin,
        })
    }

    /// Runs a plan that is recorded. Blocks until the last of its processes is gone.
    pub(crate) fn run(
        &self,
        plan: Plan,
        recorded: &Recorded<Prepared>,
        around: &Surroundings,
    ) -> ToolOutcome {
        if recorded.get().effect != plan.effect() {
            return ToolOutcome::failed(&ToolFailure::new(
                ToolErrorCode::Internal,
                "running a command: what was recorded is another one; nothing was started",
            ));
        }
        let mut protected = around.protected.paths();
        let reach = [around.working_directory.clone(), self.scratch.path().to_path_buf()];
        protected.extend(around.protected.other_names_below(&reach));
        let spec = self.spec(protected);
        let cages = self.cages();
        let mut environment = self.environment.of_command();
        environment.extend(self.git.settings(&self.git_question(&cages, &spec, &plan)));
        let program = Program {
            path: plan.program.clone(),
            arguments: plan.argv.iter().map(OsString::from).collect(),
            directory: plan.cwd.clone(),
            environment,
        };
        let began = Instant::now();
        let spawned = match plan.stdin {
            Some(_) => spawn_command(&cages, &spec, &program),
            None => spawn_command_without_input(&cages, &spec, &program),
        };
        match spawned {
            Ok(caged) => {
                let watch = running::Watch {
                    timeout: plan.timeout,
                    began,
                    stop: &around.stop,
                    scratch: &self.scratch,
                };
                running::follow(caged, plan.stdin.unwrap_or_default(), &watch)
            }
            Err(error) => {
                self.renew_if_gone(&error);
                ToolOutcome::failed(&not_started(&plan, &error))
            }
        }
    }

    fn git_question<'a>(
        &'a self,
        cages: &'a CommandCages,
        spec: &'a SandboxSpec,
        plan: &'a Plan,
    ) -> git::Question<'a> {
        git::Question { cages, spec, cwd: &plan.cwd, argv: &plan.argv, environment: &self.environment }
    }

    fn spec(&self, mut protected: Vec<AbsolutePath>) -> SandboxSpec {
        protected.extend(self.scratch.of_others());
        let mut spec = SandboxSpec::command(self.scratch.path().clone(), protected);
        spec.execution = Execution::AnythingBut(self.model_clients.clone());
        spec.limits.file_bytes = Some(scratch::LARGEST_FILE);
        spec
    }

    fn cages(&self) -> Arc<CommandCages> {
        Arc::clone(&self.cages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A helper that has died is replaced for the next command; the walls are the same.
    fn renew_if_gone(&self, error: &WallError) {
        if let WallError::Helper { .. } = error
            && let Ok(fresh) = CommandCages::open(&self.helper)
        {
            *self.cages.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        }
    }
}

fn not_started(plan: &Plan, error: &WallError) -> ToolFailure {
    let refused = if let WallError::Exec { source, .. } = error { Some(source.kind()) } else { None };
    let code = match refused {
        Some(std::io::ErrorKind::ArgumentListTooLong) => ToolErrorCode::TooLarge,
        Some(_) => ToolErrorCode::NotFound,
        None => ToolErrorCode::NotApplied,
    };
    ToolFailure::new(code, format!("running {}: {error}; nothing was run", name_of(&plan.argv)))
}

fn name_of(argv: &[String]) -> String {
    argv.first().map_or_else(String::new, |name| super::display::path(Path::new(name)).into_owned())
}
