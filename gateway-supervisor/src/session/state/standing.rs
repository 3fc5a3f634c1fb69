//! What a state amounts to: where the session stands, what is open, what is attached.

use protocol::{
    session::{RunOutcome, Status},
    turn::Turn,
};

use super::{Claude, Launch, Life, Process, Run, State};

impl State {
    /// Where the session stands.
    pub(crate) fn status(&self) -> Status {
        match &self.life {
            Life::Stopped(_) => Status::Stopped,
            Life::Stopping(_) => Status::Stopping,
            Life::LeaseExpired => Status::LeaseExpired,
            Life::Live if self.recovery_required() => Status::RecoveryRequired,
            Life::Live => self.run_status(),
        }
    }

    fn run_status(&self) -> Status {
        match &self.run {
            Some(run) if run.outcome == RunOutcome::Running => match (&run.open, run.turns) {
                (Some(_), _) => Status::WaitingForGpt,
                (None, 0) if run.new_process => Status::Starting,
                (None, _) => Status::Running,
            },
            Some(_) | None if self.launch_error.is_some() => Status::Failed,
            Some(_) | None => Status::Idle,
        }
    }

    /// Whether `recover` must look at something first.
    pub(crate) fn recovery_required(&self) -> bool {
        !self.trouble.indeterminate.is_empty() || self.trouble.root.is_some()
    }

    /// Whether a live Claude Code is attached or on its way: from the record of a run that needs a process on, so that nobody
    /// takes a session for one that holds none just before it gets one.
    pub(crate) fn runtime_attached(&self) -> bool {
        match &self.process {
            Process::Attached { claude: Claude::Coming | Claude::Running, .. } | Process::Starting(_) => true,
            Process::Attached { claude: Claude::Gone, .. } => false,
            Process::None => {
                self.life == Life::Live && self.open_run().is_some_and(|run| run.launch.is_none())
            }
        }
    }

    /// The run, while it is not over.
    pub(crate) fn open_run(&self) -> Option<&Run> {
        self.run.as_ref().filter(|run| run.outcome == RunOutcome::Running)
    }

    /// The turn that waits for ChatGPT, while a reply to it would be taken.
    pub(crate) fn open_turn(&self) -> Option<&Turn> {
        match self.life {
            Life::Live => self.open_run().and_then(|run| run.open.as_ref()),
            Life::LeaseExpired | Life::Stopping(_) | Life::Stopped(_) => None,
        }
    }

    /// How a worker that may exist was started.
    pub(crate) fn launch(&self) -> Option<&Launch> {
        match &self.process {
            Process::None => None,
            Process::Starting(launch) | Process::Attached { launch, .. } => Some(launch),
        }
    }

    /// Whether the session ended for good and nothing of it runs.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.life, Life::Stopped(_))
    }

    /// Whether a process of Claude Code ran before, so that the next one resumes.
    pub(crate) fn resumes(&self) -> bool {
        self.claude_version.is_some()
    }
}
