//! Steps: what brings the world to where the record stands.

use std::path::Path;

use protocol::{
    crash,
    failure::ErrorCode,
    id::InstanceId,
    place as names,
    profile::SubagentPolicy,
    wire::{
        launch::{ClaudeLaunch, Delegation, WorkerLaunch},
        to_worker::ToWorker,
    },
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Actor, GRACE};
use crate::{
    ledger::record::Entry,
    session::{
        converge::{self, Step, Wire},
        state::{Launch, Life, Process, Subsession},
    },
    worker::{carrier::Carrier, link::Peer, orphans, place, spawn::Born},
};

/// More steps than any state needs before it rests.
const STEPS: usize = 16;

impl Actor {
    /// Takes steps until there is none to take.
    pub(super) async fn converge(&mut self) {
        if self.pause_until.is_some() {
            return;
        }
        for _ in 0..STEPS {
            let done = match converge::next(&self.state, &self.wire, self.placing.placing()) {
                Step::Rest => break,
                Step::MakeWorkspace => {
                    self.make_workspace();
                    true
                }
                Step::LeaveWorkspace => {
                    self.placing.leave();
                    true
                }
                Step::ClearWorkspace => {
                    self.clear_workspace();
                    true
                }
                Step::Start => self.start_worker().await,
                Step::Find => {
                    self.find_worker();
                    true
                }
                Step::Tell(message) => {
                    if matches!(message, ToWorker::Stop(_)) {
                        self.kill_at.get_or_insert(Instant::now() + GRACE);
                    }
                    self.tell(message);
                    true
                }
                Step::CloseRun => {
                    let entries = self.state.lose_run(&self.findings().await);
                    self.must_record(entries).await
                }
                Step::End => self.end().await,
            };
            if !done {
                return;
            }
        }
        let ends = !matches!(self.state.life, Life::Live) && self.state.launch().is_some();
        if ends {
            // Also a worker that is not reached yet has only so long.
            self.kill_at.get_or_insert(Instant::now() + GRACE);
        }
    }

    async fn start_worker(&mut self) -> bool {
        let number = self.state.launches + 1;
        let Some(program) = self.house.config.claude_program() else {
            let message = "Claude Code was not found: install it (npm install -g @anthropic-ai/claude-code) or set CLAUDE_BIN to its program".to_owned();
            let code = ErrorCode::LaunchFailed;
            return self.must_record(vec![Entry::LaunchFailed { launch: number, code, message }]).await;
        };
        let instance = InstanceId::mint();
        let socket = match place::socket(&self.house.config.state, instance) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::error!(%error, "no place for a worker's socket");
                let message =
                    "the folder for the worker's socket can't be used; gatewayctl doctor says how to mend it"
                        .to_owned();
                let code = ErrorCode::LaunchFailed;
                return self.must_record(vec![Entry::LaunchFailed { launch: number, code, message }]).await;
            }
        };
        let starting = Entry::WorkerStarting { launch: number, instance, socket: socket.clone() };
        if !self.must_record(vec![starting]).await {
            return false;
        }
        let launch = Launch { number, instance, socket };
        crash::point("supervisor-before-spawn");
        match self.house.spawner.spawn(&self.launch_line(&launch, program)) {
            Ok(born) => {
                crash::point("supervisor-after-spawn");
                self.launched = Some(number);
                self.carry(launch, Some(born));
                true
            }
            Err(error) => {
                tracing::error!(%error, "a worker could not be started");
                let message = format!("the session's worker could not be started: {}", error.kind());
                let mut entries = self.state.fail_launch(ErrorCode::LaunchFailed, message);
                entries.push(Entry::WorkerGone { launch: number, detail: error.to_string() });
                self.must_record(entries).await
            }
        }
    }

    fn launch_line(&self, launch: &Launch, program: std::path::PathBuf) -> WorkerLaunch {
        let (birth, config) = (&self.state.birth, &self.house.config);
        let delegation = self.delegation(&program);
        // No tool of the session shows the key.
        let key = delegation.as_ref().and_then(|delegation| delegation.key_file.clone());
        let marks = self.house.marks(birth.session_id);
        WorkerLaunch {
            session_id: birth.session_id,
            instance: launch.instance,
            launch: launch.number,
            link_key: self.house.keys.link_key(birth.session_id, launch.number),
            socket: launch.socket.clone(),
            directory: marks.directory,
            expires_at: self.clock.ends(),
            profile: birth.profile,
            subagent_policy: birth.subagent_policy,
            root: birth.workspace.root.clone(),
            root_identity: birth.profile.writes().then(|| birth.workspace.identity.clone()),
            observed: self.state.observed.newest(),
            umask: self.house.umask,
            claude: ClaudeLaunch {
                program,
                session_id: birth.claude_session_id,
                resume: self.state.resumes(),
            },
            protected: self.house.protected(key),
            scratch: marks.scratch,
            command_environment: config.command_environment.clone(),
            delegation,
            subsessions: self.state.subsessions.iter().map(Subsession::summary).collect(),
        }
    }

    /// How this session's tasks are delegated, where it may delegate.
    fn delegation(&self, claude: &Path) -> Option<Delegation> {
        match self.state.birth.subagent_policy {
            SubagentPolicy::None => None,
            SubagentPolicy::DeepseekExplicit => {
                let mut delegation = self.house.config.delegation.clone();
                if delegation.program.as_os_str().is_empty() {
                    delegation.program = claude.to_owned();
                }
                Some(delegation)
            }
        }
    }

    fn find_worker(&mut self) {
        match self.state.launch().cloned() {
            Some(launch) => self.carry(launch, None),
            None => self.wire = Wire::Down,
        }
    }

    fn carry(&mut self, launch: Launch, born: Option<Born>) {
        let session_id = self.state.birth.session_id;
        self.kill = CancellationToken::new();
        self.kill_at = None;
        let identity = match &self.state.process {
            Process::Attached { identity, .. } => Some(identity.clone()),
            Process::Starting(_) | Process::None => None,
        };
        let key = self.house.keys.link_key(session_id, launch.number);
        let carrier = Carrier {
            launch,
            peer: Peer { session_id, key },
            identity,
            marks: self.house.marks(session_id),
            kill: self.kill.clone(),
            happenings: self.happenings.clone(),
        };
        self.wire = Wire::Busy;
        tokio::spawn(carrier.carry(born));
    }

    /// Removes what a worker that is gone left lying about: its socket, its outbox once that is taken in, and what it had
    /// not written to the end.
    pub(super) async fn clear_worker(&self, launch: Option<Launch>) {
        if let Some(launch) = launch {
            crate::supervisor::clear::file(launch.socket).await;
        }
        let marks = self.house.marks(self.state.birth.session_id);
        crate::supervisor::clear::file(marks.directory.join(protocol::wire::outbox::FILE_NAME)).await;
        for folder in [marks.directory.join(names::VERSIONS), marks.directory] {
            crate::supervisor::clear::unfinished(folder).await;
        }
    }

    async fn end(&mut self) -> bool {
        let marks = self.house.marks(self.state.birth.session_id);
        orphans::sweep(marks.clone()).await;
        crate::supervisor::clear::folder(marks.scratch).await;
        crash::point("supervisor-before-end");
        self.must_record(vec![Entry::Stopped]).await
    }
}
