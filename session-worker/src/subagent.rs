//! Delegated tasks: at most one sub-session at a time, in a cage of its own, with the gateway's tools on the same worktree.
//!
//! Invariant: it is recorded before anything of it starts, and its end only once nothing of it runs any more.
//! Invariant: its cage reaches one port, and behind it are its model and its tools alone.

pub(crate) mod forward;
mod key;
mod running;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::{
    action::{Action, Effect, Prepared},
    crash,
    failure::ToolErrorCode,
    id::SubsessionId,
    receipt::Facts,
    subagent::{ChangedFile, SubsessionEnd, SubsessionState, SubsessionSummary},
    timestamp::Timestamp,
    tool::SubagentStart,
    wire::launch::Delegation,
};
use serde_json::json;
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    executor::{
        outcome::{ToolFailure, ToolOutcome},
        tools::{Stop, Tools},
    },
    link::recorder::Recorder,
};

/// How long a look at an active sub-session waits for its end.
const LOOK: Duration = Duration::from_secs(15);

/// How long an end that was asked for is waited for: its program gets some seconds to go.
const END: Duration = Duration::from_secs(40);

/// Makes a sub-session's own tools: for its folder, with its own stop.
pub(crate) type MakeTools = Box<dyn Fn(&Path, Stop) -> Result<Tools, String> + Send + Sync>;

/// The sub-sessions of one session. A clone is the same ones.
#[derive(Clone)]
pub(crate) struct Delegates(Arc<Inner>);

struct Inner {
    delegation: Delegation,
    /// The session's folder.
    directory: PathBuf,
    make_tools: MakeTools,
    known: Mutex<BTreeMap<SubsessionId, Known>>,
}

/// A sub-session as this process knows it.
#[derive(Debug)]
struct Known {
    summary: SubsessionSummary,
    stop: CancellationToken,
    over: watch::Sender<bool>,
}

impl fmt::Debug for Delegates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Delegates").field(&self.0.known).finish()
    }
}

impl Delegates {
    /// The sub-sessions of the session in `directory`, with those that ended before this process.
    pub(crate) fn new(
        delegation: Delegation,
        directory: PathBuf,
        earlier: &[SubsessionSummary],
        make_tools: MakeTools,
    ) -> Self {
        let known = earlier.iter().map(|summary| {
            let (stop, over) = (CancellationToken::new(), watch::Sender::new(true));
            (summary.id, Known { summary: summary.clone(), stop, over })
        });
        let known = Mutex::new(known.collect());
        Self(Arc::new(Inner { delegation, directory, make_tools, known }))
    }

    /// Begins a sub-session: recorded first, then started.
    pub(crate) async fn start(
        &self,
        action: &Action,
        input: SubagentStart,
        recorder: &Recorder,
    ) -> Result<ToolOutcome, ToolFailure> {
        let refused = |why: String| {
            ToolFailure::new(
                ToolErrorCode::NotApplied,
                format!("delegating a task: {why}; nothing was started"),
            )
        };
        if self.active().is_some() {
            return Err(refused("another sub-session is active".to_owned()));
        }
        let subsession_id = SubsessionId::mint();
        let effect = Effect::Subsession { subsession_id };
        let prepared = Prepared { action_id: action.action_id, prepared_at: Timestamp::now(), effect };
        recorder.prepared(prepared).await.map_err(|ends| refused(ends.to_string()))?;
        crash::point("worker-subsession-recorded");
        let summary = SubsessionSummary {
            id: subsession_id,
            state: SubsessionState::Starting,
            model: input.model,
            turns: None,
            reason: None,
            text: None,
            files: Vec::new(),
        };
        let (stop, over) = (CancellationToken::new(), watch::Sender::new(false));
        self.known().insert(subsession_id, Known { summary, stop: stop.clone(), over });
        let (up, is_up) = oneshot::channel();
        let (delegates, recorder) = (self.clone(), recorder.of(subsession_id));
        tokio::spawn(async move {
            let task = running::Task { id: subsession_id, tier: input.model, text: input.task };
            let end = running::run(&delegates, task, (&recorder, stop, up)).await;
            crash::point("worker-subsession-before-end");
            let recorded = recorder.ended(end.clone()).await.is_ok();
            crash::point("worker-subsession-end-recorded");
            delegates.over(subsession_id, end, recorded);
        });
        // Where it did not come up, its end is what there is to tell.
        if is_up.await.is_err() {
            self.wait_for_end(subsession_id, END).await;
        }
        Ok(self.shown(subsession_id))
    }

    /// How a sub-session stands. An active one is waited for, for a while.
    pub(crate) async fn get(&self, id: &str) -> Result<ToolOutcome, ToolFailure> {
        let id = self.find(id)?;
        self.wait_for_end(id, LOOK).await;
        Ok(self.shown(id))
    }

    /// Ends a sub-session and waits until it is over.
    pub(crate) async fn stop(&self, id: &str) -> Result<ToolOutcome, ToolFailure> {
        let id = self.find(id)?;
        if let Some(known) = self.known().get(&id) {
            known.stop.cancel();
        }
        crash::point("worker-subsession-stop-asked");
        self.wait_for_end(id, END).await;
        Ok(self.shown(id))
    }

    /// Asks the active one to end.
    pub(crate) fn end_all(&self) {
        self.known().values().for_each(|known| known.stop.cancel());
    }

    /// Waits until none is active.
    pub(crate) async fn all_over(&self) {
        while let Some(id) = self.active() {
            self.wait_for_end(id, END).await;
        }
    }

    fn find(&self, id: &str) -> Result<SubsessionId, ToolFailure> {
        let id = id.parse::<SubsessionId>().ok().filter(|id| self.known().contains_key(id));
        id.ok_or_else(|| {
            let why = "this session has no such sub-session; use an id that deepseek_subagent_start gave";
            ToolFailure::new(ToolErrorCode::NotFound, why)
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<SubsessionId, Known>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn active(&self) -> Option<SubsessionId> {
        self.known().iter().find(|(_, known)| !*known.over.borrow()).map(|(id, _)| *id)
    }

    async fn wait_for_end(&self, id: SubsessionId, patience: Duration) {
        let over = self.known().get(&id).map(|known| known.over.subscribe());
        if let Some(mut over) = over {
            // What it was waited for in vain is told as it stands.
            let _ = timeout(patience, over.wait_for(|over| *over)).await;
        }
    }

    fn at_work(&self, id: SubsessionId) {
        if let Some(known) = self.known().get_mut(&id) {
            known.summary.state = SubsessionState::Running;
        }
    }

    /// Takes down that a file was changed.
    fn wrote(&self, id: SubsessionId, facts: &Facts) {
        let Facts::Wrote { before, after } = facts else { return };
        let mut all = self.known();
        let Some(known) = all.get_mut(&id) else { return };
        let files = &mut known.summary.files;
        match files.iter_mut().find(|file| file.path == after.path) {
            Some(file) => file.after = after.sha256,
            None => {
                files.push(ChangedFile { path: after.path.clone(), before: *before, after: after.sha256 });
                files.sort_by(|a, b| a.path.cmp(&b.path));
            }
        }
    }

    fn over(&self, id: SubsessionId, end: SubsessionEnd, recorded: bool) {
        let mut all = self.known();
        let Some(known) = all.get_mut(&id) else { return };
        tracing::info!(subsession = %id, state = end.state.name(), recorded, "a sub-session is over");
        known.summary.state = end.state;
        known.summary.reason = end.reason;
        known.summary.text = end.text;
        known.summary.turns = Some(end.turns);
        known.over.send_replace(true);
    }

    fn shown(&self, id: SubsessionId) -> ToolOutcome {
        let all = self.known();
        let Some(Known { summary, .. }) = all.get(&id) else {
            return ToolOutcome::failed(&ToolFailure::new(ToolErrorCode::NotFound, "no such sub-session"));
        };
        let files: Vec<_> = summary
            .files
            .iter()
            .map(|file| json!({"path": file.path, "sha256_before": file.before, "sha256_after": file.after}))
            .collect();
        let next = if summary.state.active() {
            "only read, and call deepseek_subagent_get until it has ended"
        } else {
            "Read what it changed before you change it yourself"
        };
        let told = json!({
            "id": id, "state": summary.state.name(), "model": summary.model.name(), "turns": summary.turns,
            "reason": summary.reason, "text": summary.text, "files_changed": files, "next": next,
        });
        ToolOutcome::done(told.to_string(), Facts::None)
    }
}
