//! Undos: their records, and what became of one that was cut off.
//!
//! Invariant: an undo that nobody carries any more is resolved from the real file, once the process that carried it out is
//! gone; it is never carried out again.

use std::{
    io,
    path::Path,
    sync::{Arc, Weak},
};

use protocol::{
    action::{Prepared, Resolution},
    failure::Failure,
    id::ActionId,
    receipt::Receipt,
    recorded::{Ack, RecordId, Recordable},
    workspace::Workspace,
};
use tokio::{sync::oneshot, time::Instant};

use super::{AGAIN, Actor};
use crate::{
    ledger::record::{Entry, UndoBegun},
    recovery::observe,
    session::{
        refusal,
        state::{Findings, OpenUndo},
        undo::{self, Begin, Wanted},
    },
    supervisor::clear,
    worker::undo as process,
};

/// The number of a launch that no worker has: what is acknowledged is an undo's.
const NO_LAUNCH: u32 = 0;

/// What is asked about an undo, by the one who carries it.
#[derive(Debug)]
pub(crate) enum UndoAsk {
    /// May it begin?
    Begin(Wanted, oneshot::Sender<Result<Begun, Failure>>),
    /// It is staged: make that durable.
    Prepared(Box<Prepared>, oneshot::Sender<Result<Ack, Failure>>),
    /// It is over: make that durable.
    Done(Box<Receipt>, oneshot::Sender<Result<(), Failure>>),
    /// The process that carried it out is gone: find out what it did.
    Resolve(ActionId, oneshot::Sender<Result<(Resolution, String), Failure>>),
}

/// Whether an undo has begun.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It has, and whoever holds this carries it.
    Now(UndoBegun, Arc<()>),
    /// Another undo ended in between.
    LookAgain,
}

impl Actor {
    /// Whether an undo is open that nobody carries.
    pub(super) fn undo_is_cut_off(&self) -> bool {
        self.state.undo.is_some() && self.undoing.strong_count() == 0
    }

    pub(super) async fn answer_undo(&mut self, ask: UndoAsk) {
        // Whoever asked may be gone; what was recorded stays.
        match ask {
            UndoAsk::Begin(wanted, answer) => drop(answer.send(self.begin_undo(&wanted).await)),
            UndoAsk::Prepared(prepared, answer) => {
                drop(answer.send(self.record_prepared_undo(*prepared).await));
            }
            UndoAsk::Done(receipt, answer) => {
                let entry = Entry::UndoReceipt { receipt: *receipt };
                drop(answer.send(self.record(vec![entry]).await.map_err(|error| refusal::ledger(&error))));
            }
            UndoAsk::Resolve(action_id, answer) => {
                let open = self.state.undo.as_ref().filter(|open| open.begun.action_id == action_id);
                let found = if open.is_some() { self.resolve_undo().await } else { None };
                let unknown = || refusal::internal("finding out what the interrupted undo did");
                drop(answer.send(found.ok_or_else(unknown)));
            }
        }
    }

    async fn begin_undo(&mut self, wanted: &Wanted) -> Result<Begun, Failure> {
        let begun = match undo::decide(&self.state, wanted)? {
            Begin::Now(begun) => begun,
            Begin::LookAgain => return Ok(Begun::LookAgain),
        };
        self.record(vec![Entry::UndoBegun(begun.clone())]).await.map_err(|error| refusal::ledger(&error))?;
        let carried = Arc::new(());
        self.undoing = Arc::downgrade(&carried);
        Ok(Begun::Now(begun, carried))
    }

    async fn record_prepared_undo(&mut self, prepared: Prepared) -> Result<Ack, Failure> {
        let open = self.state.undo.as_ref().filter(|open| open.begun.action_id == prepared.action_id);
        if open.is_none_or(|open| open.prepared.is_some()) {
            return Err(refusal::internal("recording an undo that is not the open one"));
        }
        let digest = prepared.record_digest();
        let durable = self
            .append(vec![Entry::UndoPrepared { prepared }])
            .await
            .map_err(|error| refusal::ledger(&error))?;
        let record = durable.first().ok_or_else(|| refusal::internal("recording an undo"))?;
        Ok(record.ack(RecordId { launch: NO_LAUNCH, number: record.number() }, digest))
    }

    /// Finds out what the open undo did, and records it. None where that can't be done now: it is tried again.
    pub(super) async fn resolve_undo(&mut self) -> Option<(Resolution, String)> {
        let open = self.state.undo.clone()?;
        let action_id = open.begun.action_id;
        self.undoing = Weak::new();
        let directory = self.house.marks(self.state.birth.session_id).directory;
        let workspace = self.state.birth.workspace.clone();
        let looked = tokio::task::spawn_blocking(move || look(&directory, &workspace, &open)).await;
        let found = match looked {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::error!(%action_id, %error, "what an undo did can't be found out yet; trying again");
                self.pause_until = Some(Instant::now() + AGAIN);
                return None;
            }
            Err(_) => return None,
        };
        let (resolution, detail) = found.clone();
        self.must_record(vec![Entry::Resolved { action_id, resolution, detail }]).await.then_some(found)
    }
}

/// Looks at the real file, once nothing can change it any more, and clears up. Blocks.
fn look(directory: &Path, workspace: &Workspace, open: &OpenUndo) -> io::Result<(Resolution, String)> {
    process::wait_until_gone(directory)?;
    let action_id = open.begun.action_id;
    let mut findings = match &open.prepared {
        Some(prepared) => observe::findings(workspace, std::slice::from_ref(prepared)),
        None => {
            let why = "allowed and never prepared".to_owned();
            Findings::from([(action_id, (Resolution::NotStarted, why))])
        }
    };
    clear::after_writes(workspace, &[open.left_behind()], &mut findings);
    let nobody = || (Resolution::Indeterminate, "nobody could look at what it did".to_owned());
    Ok(findings.remove(&action_id).unwrap_or_else(nobody))
}
