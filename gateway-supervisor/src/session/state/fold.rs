//! One record after the other becomes the state.
//!
//! Invariant: total. A record that does not fit what came before changes nothing but the revision: it was checked before
//! it was appended, so only a newer release or a damaged book can hold one.

use std::sync::Arc;

use protocol::{
    action::{Prepared, Resolution},
    digest::Digest,
    failure::ErrorCode,
    id::{ActionId, RequestId, RunId},
    lease::Lease,
    process_identity::ProcessIdentity,
    receipt::Receipt,
    recorded::{Ack, RecordId, Recordable},
    session::RunOutcome,
    timestamp::Timestamp,
    turn::{Reply, Turn},
    wire::to_supervisor::WorkerRecord,
    workspace::{Workspace, WorkspaceKind},
};

use super::{
    ActionRecord, Answer, Claude, Keys, Launch, Life, Observed, Process, Progress, Run, State, StopRequest,
    Trouble, Worktree, earlier::shortened,
};
use crate::ledger::{
    Durable,
    record::{Created, Entry, Record, RunStarted},
};

/// The records don't begin with a creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the journal does not begin with the creation of a session")]
pub(crate) struct NotASession;

impl State {
    /// The state that the first record makes.
    ///
    /// # Errors
    /// Where it is not a creation.
    pub(crate) fn born(first: &Record) -> Result<Self, NotASession> {
        let Entry::Created(birth) = &first.entry else { return Err(NotASession) };
        let birth: Created = Created::clone(birth);
        Ok(Self {
            born_at: first.at,
            changed_at: first.at,
            records: 1,
            revision: 1,
            lease: birth.lease,
            worktree: Worktree::Kept,
            placed: !matches!(birth.workspace.kind, WorkspaceKind::Worktree { .. }),
            life: Life::Live,
            process: Process::None,
            launches: 0,
            claude_version: None,
            run: None,
            lost: Vec::new(),
            observed: Observed::default(),
            subsessions: Vec::new(),
            undo: None,
            newest_undo: 0,
            trouble: Trouble::default(),
            launch_error: None,
            keys: Keys::default(),
            acks: std::collections::BTreeMap::new(),
            birth,
        })
    }

    /// The state that a session's durable records add up to.
    ///
    /// # Errors
    /// Where they don't begin with a creation.
    pub(crate) fn of(records: &[Durable<Record>]) -> Result<Self, NotASession> {
        let (first, rest) = records.split_first().ok_or(NotASession)?;
        let mut state = Self::born(first.get())?;
        for record in rest {
            state.absorb(record);
        }
        Ok(state)
    }

    /// Takes in the next durable record.
    pub(crate) fn absorb(&mut self, record: &Durable<Record>) {
        let ack = asked(&record.get().entry, record.number()).map(|(id, digest)| record.ack(id, digest));
        self.apply(record.get(), ack);
    }

    /// Takes in the next durable record, with the acknowledgement where it is one that a worker or a reply waits for.
    pub(crate) fn apply(&mut self, record: &Record, ack: Option<Ack>) {
        self.records += 1;
        self.changed_at = record.at;
        if !matches!(record.entry, Entry::LeaseRenewed { .. }) {
            self.revision += 1;
        }
        let reply_ack = ack.clone();
        if let (Some(ack), Some(launch)) = (ack, self.launch())
            && ack.record().launch == launch.number
            && !matches!(record.entry, Entry::Replied { .. })
        {
            self.acks.insert(ack.record().number, ack);
        }
        match &record.entry {
            // A second creation: nothing of ours writes one.
            Entry::Created(_) => {}
            Entry::RunStarted(run) => self.run_started(run, record.at),
            Entry::WorkerStarting { launch, instance, socket } => {
                self.worker_starting(Launch { number: *launch, instance: *instance, socket: socket.clone() });
            }
            Entry::WorkerAttached { launch, identity } => self.worker_attached(*launch, identity),
            Entry::ClaudeStarted { version, .. } => {
                self.claude_version = Some(version.clone());
                self.set_claude(Claude::Running);
            }
            Entry::ClaudeGone { .. } => self.claude_gone(),
            Entry::TurnOpened { turn, .. } => self.turn_opened(turn),
            Entry::Replied { input, reply } => self.replied(*input, reply, reply_ack),
            Entry::Prepared { prepared, .. } => {
                self.subsession_begun(prepared);
                self.progress(prepared.action_id, Progress::Prepared(Box::new(prepared.clone())));
            }
            Entry::Receipt { receipt, .. } => self.received(receipt),
            Entry::RunEnded { run_id, outcome, detail, .. } => self.run_ended(*run_id, *outcome, detail),
            Entry::LaunchFailed { code, message, .. } => self.launch_failed(*code, message),
            Entry::WorkerGone { launch, .. } => self.worker_gone(*launch),
            Entry::Resolved { action_id, resolution, .. } => self.resolved(*action_id, *resolution),
            Entry::Subsession { subsession_id, event, .. } => {
                self.subsession_event(*subsession_id, event, record.at);
            }
            Entry::LeaseRenewed { expires_at } => {
                self.lease.expires_at = self.lease.expires_at.max(*expires_at);
            }
            Entry::LeaseExpired if self.life == Life::Live => self.life = Life::LeaseExpired,
            Entry::LeaseExpired => {}
            Entry::WorkspaceReady { workspace } => self.place(workspace),
            Entry::RootReplaced { reason } => self.trouble.root = Some(reason.clone()),
            Entry::Recovered { recovery_id, input, lease } => {
                self.keys.recoveries.insert(recovery_id.clone(), (*input, *lease));
                self.recovered(*lease);
            }
            Entry::StopRequested { request_id, input, reason } => {
                self.stop_requested((request_id.as_ref(), *input), reason.as_ref(), record.at);
            }
            Entry::Stopped => self.stopped(record.at),
            Entry::UndoBegun(_) | Entry::UndoPrepared { .. } | Entry::UndoReceipt { .. } => {
                self.undo_went_on(&record.entry);
            }
            Entry::WorktreeRemoving { .. } | Entry::WorktreeRemoved { .. } => {
                self.worktree_goes(&record.entry);
            }
        }
    }

    /// The first one ends the session; of a later one only its key counts.
    fn stop_requested(
        &mut self,
        (key, input): (Option<&RequestId>, Option<Digest>),
        reason: Option<&String>,
        at: Timestamp,
    ) {
        if let (Some(key), Some(input)) = (key, input) {
            self.keys.stops.insert(key.clone(), input);
        }
        if matches!(self.life, Life::Live | Life::LeaseExpired) {
            let (request_id, reason) = (key.cloned(), reason.cloned());
            self.life = Life::Stopping(StopRequest { request_id, reason, at });
        }
    }

    fn worker_starting(&mut self, launch: Launch) {
        self.launches = self.launches.max(launch.number);
        self.acks.clear();
        if let Some(run) = self.running() {
            run.launch = Some(launch.number);
            run.new_process = true;
        }
        self.process = Process::Starting(launch);
    }

    fn worker_attached(&mut self, number: u32, identity: &ProcessIdentity) {
        if let Process::Starting(starting) = &self.process
            && starting.number == number
        {
            let (launch, identity) = (starting.clone(), identity.clone());
            self.process = Process::Attached { launch, identity, claude: Claude::Coming };
        }
    }

    fn worker_gone(&mut self, number: u32) {
        if self.launch().is_none_or(|current| current.number != number) {
            return;
        }
        let never_up = matches!(self.process, Process::Starting(_));
        self.process = Process::None;
        // Nobody has begun a run whose worker never came up: another worker is started for it.
        if never_up
            && let Some(run) = self.running()
            && run.launch == Some(number)
        {
            run.launch = None;
        }
    }

    fn claude_gone(&mut self) {
        self.set_claude(Claude::Gone);
        // Nobody is left to take an answer. The run ends with its worker, once its last action is resolved.
        if let Some(run) = self.running() {
            run.open = None;
        }
    }

    fn launch_failed(&mut self, code: ErrorCode, message: &str) {
        self.launch_error = Some((code, message.to_owned()));
        // Its worker is on its way out: a run that is asked for now waits for another one.
        self.set_claude(Claude::Gone);
        if let Some(run) = self.running() {
            run.outcome = RunOutcome::Failed;
            run.open = None;
        }
    }

    fn place(&mut self, workspace: &Workspace) {
        self.birth.workspace = workspace.clone();
        self.placed = true;
    }

    fn received(&mut self, receipt: &Receipt) {
        self.observed.receipt(receipt);
        self.subsession_started(receipt.action_id);
        self.progress(receipt.action_id, Progress::Done(Arc::new(receipt.clone())));
    }

    fn resolved(&mut self, action_id: ActionId, resolution: Resolution) {
        self.undo_resolved(action_id, resolution);
        if resolution == Resolution::Applied
            && let Some(prepared) = self.prepared(action_id)
        {
            let prepared = prepared.clone();
            self.observed.applied(&self.birth.workspace.root, &prepared);
        }
        self.progress(action_id, Progress::Resolved(resolution));
        if resolution == Resolution::Indeterminate {
            self.trouble.indeterminate.push(action_id);
        }
    }

    fn prepared(&self, id: ActionId) -> Option<&Prepared> {
        let mut actions = self.run.iter().flat_map(|run| &run.answer).flat_map(|answer| &answer.actions);
        match &actions.find(|action| action.action_id == id)?.progress {
            Progress::Prepared(prepared) => Some(prepared),
            Progress::Authorized | Progress::Done(_) | Progress::Resolved(_) => None,
        }
    }

    fn recovered(&mut self, lease: Lease) {
        self.lease = lease;
        self.trouble = Trouble::default();
        if self.life == Life::LeaseExpired {
            self.life = Life::Live;
        }
    }

    fn running(&mut self) -> Option<&mut Run> {
        self.run.as_mut().filter(|run| run.outcome == RunOutcome::Running)
    }

    fn set_claude(&mut self, now: Claude) {
        if let Process::Attached { claude, .. } = &mut self.process {
            *claude = now;
        }
    }

    /// An action of the newest reply came further.
    fn progress(&mut self, id: ActionId, progress: Progress) {
        let answer = self.run.as_mut().and_then(|run| run.answer.as_mut());
        let mut actions = answer.into_iter().flat_map(|answer| &mut answer.actions);
        if let Some(action) = actions.find(|action| action.action_id == id) {
            action.progress = progress;
        }
    }

    fn run_started(&mut self, started: &RunStarted, at: Timestamp) {
        self.keys.runs.insert(started.idempotency_key.clone(), started.input);
        self.launch_error = None;
        let carrier = match &self.process {
            Process::Attached { launch, claude: Claude::Coming | Claude::Running, .. } => Some(launch.number),
            Process::Attached { claude: Claude::Gone, .. } | Process::Starting(_) | Process::None => None,
        };
        self.run = Some(Run {
            run_id: started.run_id,
            sequence: started.sequence,
            started_at: at,
            prompt: Arc::from(started.prompt.as_str()),
            launch: carrier,
            new_process: carrier.is_none(),
            turns: 0,
            first_turn: None,
            open: None,
            answer: None,
            earlier: Vec::new(),
            outcome: RunOutcome::Running,
            detail: None,
        });
    }

    fn turn_opened(&mut self, turn: &Turn) {
        if let Some(run) = self.running().filter(|run| run.run_id == turn.run_id) {
            run.turns += 1;
            run.first_turn = run.first_turn.or(Some(turn.turn_id));
            run.open = Some(turn.clone());
        }
    }

    fn replied(&mut self, input: Digest, reply: &Reply, ack: Option<Ack>) {
        self.keys.replies.insert(reply.reply_id.clone(), input);
        let Some(run) = self.running() else { return };
        run.open = None;
        if let Some(before) = run.answer.take() {
            run.earlier.extend(before.actions.into_iter().map(shortened));
        }
        let actions = reply
            .actions
            .iter()
            .map(|a| ActionRecord { action_id: a.action_id, tool: a.tool, progress: Progress::Authorized })
            .collect();
        run.answer = Some(Answer { reply: Arc::new(reply.clone()), ack, actions });
        // The turn that told what became of lost actions is answered: ChatGPT knows.
        self.lost.clear();
    }

    fn run_ended(&mut self, run_id: RunId, outcome: RunOutcome, detail: &Option<String>) {
        let Some(run) = self.running().filter(|run| run.run_id == run_id) else { return };
        run.outcome = outcome;
        run.open = None;
        run.detail.clone_from(detail);
        if outcome == RunOutcome::Lost {
            let mut actions = std::mem::take(&mut run.earlier);
            actions.extend(run.answer.iter().flat_map(|answer| answer.actions.iter().cloned()));
            self.lost.extend(actions);
        } else {
            run.earlier.clear();
        }
    }

    fn stopped(&mut self, at: Timestamp) {
        let request = match &self.life {
            Life::Stopping(request) | Life::Stopped(request) => request.clone(),
            Life::Live | Life::LeaseExpired => StopRequest { request_id: None, reason: None, at },
        };
        self.life = Life::Stopped(request);
        self.process = Process::None;
        self.acks.clear();
    }
}

/// Who waits for the acknowledgement of an entry, and of what.
fn asked(entry: &Entry, number: u64) -> Option<(RecordId, Digest)> {
    let (request, what) = match entry {
        // A reply is acknowledged to the worker with the number of its record: no worker asked for it.
        Entry::Replied { reply, .. } => return Some((RecordId { launch: 0, number }, reply.record_digest())),
        Entry::ClaudeStarted { request, version } => {
            (request, WorkerRecord::ClaudeStarted { version: version.clone() })
        }
        Entry::TurnOpened { request, turn } => return Some((*request, turn.record_digest())),
        Entry::Prepared { request, prepared } => return Some((*request, prepared.record_digest())),
        Entry::Receipt { request, receipt } => return Some((*request, receipt.record_digest())),
        Entry::RunEnded { request: Some(request), run_id, outcome, detail } => {
            (request, WorkerRecord::RunEnded { run_id: *run_id, outcome: *outcome, detail: detail.clone() })
        }
        Entry::ClaudeGone { request, had_started, detail } => {
            (request, WorkerRecord::ClaudeGone { had_started: *had_started, detail: detail.clone() })
        }
        Entry::Subsession { request: Some(request), event, .. } => return Some((*request, event.digest())),
        Entry::Subsession { request: None, .. }
        | Entry::RunEnded { request: None, .. }
        | Entry::Created(_)
        | Entry::RunStarted(_)
        | Entry::WorkerStarting { .. }
        | Entry::WorkerAttached { .. }
        | Entry::LaunchFailed { .. }
        | Entry::WorkerGone { .. }
        | Entry::Resolved { .. }
        | Entry::LeaseRenewed { .. }
        | Entry::LeaseExpired
        | Entry::WorkspaceReady { .. }
        | Entry::RootReplaced { .. }
        | Entry::Recovered { .. }
        | Entry::StopRequested { .. }
        | Entry::UndoBegun(_)
        | Entry::UndoPrepared { .. }
        | Entry::UndoReceipt { .. }
        | Entry::Stopped
        | Entry::WorktreeRemoving { .. }
        | Entry::WorktreeRemoved { .. } => return None,
    };
    Some((*request, what.digest()))
}
