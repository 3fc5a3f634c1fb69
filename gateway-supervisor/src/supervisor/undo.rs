//! `gatewayctl undo`: finds the change, has another process put back what stood before, and records each step first.
//!
//! ```text
//! records read, the change found            refusals that leave no trace
//! UndoBegun         recorded                the undo's own action
//! process started: it stages beside the file, and waits
//! UndoPrepared      recorded                what it is about to do
//! go: it compares and exchanges
//! UndoReceipt       recorded                or Resolved, where it or the supervisor was cut off
//! answer
//! ```
//!
//! Invariant: an undo that was begun gets an outcome, from its receipt or from the real file; it is never carried out again.

mod words;

use std::path::PathBuf;

use protocol::{
    crash,
    failure::{ErrorCode, Failure},
    id::SessionId,
    receipt::Receipt,
    wire::undo::{Restored, UndoLaunch, UndoSaid},
};

use super::gateway::Gateway;
use crate::{
    control::answer::Undone,
    ledger::{
        blobs::Blobs,
        changes::{Change, Changes},
        record::{Record, UndoBegun},
    },
    session::{
        actor::{Ask, Begun, UndoAsk},
        refusal,
        state::State,
        undo::{self, Meant, Wanted},
    },
    worker::undo::Undoing,
    workspace::identity,
};

/// Undos of others that may end between a look at the records and the beginning of this one.
const LOOKS: usize = 8;

/// A change that is to be undone, with what the session's records told of it.
struct Plan {
    state: State,
    changes: Changes,
    change: Change,
    /// What is put back; none where the file is taken away.
    restores: Option<Restored>,
    wanted: Wanted,
}

/// What the records say of the owner's words.
enum Found {
    Plan(Box<Plan>),
    /// It is undone already, by this.
    Already(Box<Undone>),
}

impl Gateway {
    /// Undoes one change of a session. It is finished even if the caller goes away.
    pub(super) async fn undo_change(&self, session: SessionId, words: String) -> Result<Undone, Failure> {
        let gateway = self.clone();
        let work = self.0.commits.spawn(async move { gateway.undo_now(session, &words).await });
        work.await.unwrap_or_else(|_| Err(refusal::internal("undoing a change")))
    }

    async fn undo_now(&self, session: SessionId, words: &str) -> Result<Undone, Failure> {
        let handle = self.find(session).await?;
        for _ in 0..LOOKS {
            let plan = match self.plan(session, words).await? {
                Found::Plan(plan) => plan,
                Found::Already(undone) => return Ok(*undone),
            };
            let wanted = plan.wanted.clone();
            let begun = handle.ask(|answer| Ask::Undo(UndoAsk::Begin(wanted, answer))).await;
            match begun.map_err(|_| refusal::internal("reaching the session"))?? {
                // Whoever holds the token carries the undo.
                Begun::Now(begun, _carried) => {
                    let outcome = self.carry(&plan, &begun).await;
                    return words::answer((&plan.changes, &plan.change), (session, &begun), outcome);
                }
                Begun::LookAgain => {}
            }
        }
        Err(refusal::internal("finding the change among undos of others"))
    }

    /// Reads the records and finds the change in them. Nothing is recorded of what is refused here.
    async fn plan(&self, session: SessionId, words: &str) -> Result<Found, Failure> {
        let ledger = self.0.house.ledger.clone();
        let (state_dir, worker) = (self.0.house.config.state.clone(), self.0.house.worker.clone());
        let words = words.to_owned();
        let planned = tokio::task::spawn_blocking(move || {
            let records = ledger.load(session).map_err(|error| refusal::ledger(&error))?;
            let state = State::of(&records).map_err(|_| refusal::internal("reading the session's record"))?;
            let records: Vec<Record> = records.into_iter().map(|record| record.into_inner()).collect();
            let changes = Changes::of(&records);
            let change = match undo::meant(&changes, session, &words)? {
                Meant::Undone(undo) => {
                    return Ok(Found::Already(Box::new(words::already(session, &changes, undo))));
                }
                Meant::Change(change) => change.clone(),
            };
            if !worker.is_file() {
                return Err(words::no_worker());
            }
            ground(&state)?;
            let restores = restored(&Blobs::of_session(&state_dir, session), &changes, &change)?;
            let wanted = Wanted {
                undoes: change.action_id,
                subsession_id: changes.origin(&change),
                path: change.file.clone(),
                records: records.len() as u64,
            };
            Ok(Found::Plan(Box::new(Plan { state, changes, change, restores, wanted })))
        });
        planned.await.unwrap_or_else(|_| Err(refusal::internal("reading the session's record")))
    }

    /// Carries a begun undo to its outcome.
    async fn carry(&self, plan: &Plan, begun: &UndoBegun) -> Result<words::Outcome, Failure> {
        let session = plan.state.birth.session_id;
        let handle = self.find(session).await?;
        match self.have_it_done(plan, begun).await {
            Ok(receipt) => {
                let recorded = receipt.clone();
                let asked = handle.ask(|answer| Ask::Undo(UndoAsk::Done(Box::new(recorded), answer))).await;
                asked.map_err(|_| refusal::internal("reaching the session"))??;
                crash::point("supervisor-undo-before-answer");
                Ok(words::Outcome::Received(receipt))
            }
            Err(why) => {
                tracing::error!(%session, action = %begun.action_id, why, "an undo was cut off");
                let action_id = begun.action_id;
                let asked = handle.ask(|answer| Ask::Undo(UndoAsk::Resolve(action_id, answer))).await;
                let (resolution, detail) = asked.map_err(|_| refusal::internal("reaching the session"))??;
                Ok(words::Outcome::Resolved { why, resolution, detail })
            }
        }
    }

    /// Starts the process and speaks with it; it is gone when this returns. The error says how it was cut off.
    async fn have_it_done(&self, plan: &Plan, begun: &UndoBegun) -> Result<Receipt, String> {
        let launch = self.undo_launch(plan, begun);
        let started = Undoing::start(&self.0.house.worker, &launch).await;
        let mut undoing = started.map_err(|error| format!("it could not be started: {error}"))?;
        let said = self.speak(&mut undoing, plan.state.birth.session_id).await;
        let ended = undoing.end().await;
        said.map_err(|why| format!("{why} ({ended})"))
    }

    async fn speak(&self, undoing: &mut Undoing, session: SessionId) -> Result<Receipt, String> {
        let gone = |error: std::io::Error| format!("the process that carries it out is gone: {error}");
        let prepared = match undoing.hear().await.map_err(gone)? {
            UndoSaid::Done(receipt) => return Ok(receipt),
            UndoSaid::Staged(prepared) => Box::new(prepared),
        };
        let handle = self.find(session).await.map_err(|failure| failure.to_string())?;
        let asked = handle.ask(|answer| Ask::Undo(UndoAsk::Prepared(prepared, answer))).await;
        let recorded = asked.map_err(|_| "the session's task is gone".to_owned())?;
        let ack = recorded.map_err(|failure| failure.to_string())?;
        crash::point("supervisor-undo-before-go");
        undoing.go(&ack).await.map_err(gone)?;
        crash::point("supervisor-undo-after-go");
        match undoing.hear().await.map_err(gone)? {
            UndoSaid::Done(receipt) => Ok(receipt),
            UndoSaid::Staged(_) => Err("it staged twice".to_owned()),
        }
    }

    fn undo_launch(&self, plan: &Plan, begun: &UndoBegun) -> UndoLaunch {
        let (house, birth) = (&self.0.house, &plan.state.birth);
        let marks = house.marks(birth.session_id);
        UndoLaunch {
            action_id: begun.action_id,
            directory: marks.directory,
            scratch: marks.scratch,
            root: birth.workspace.root.clone(),
            root_identity: birth.workspace.identity.clone(),
            umask: house.umask,
            protected: house.protected(house.config.delegation.key_file.clone()),
            path: plan.change.file.clone(),
            stands: plan.change.after,
            restores: plan.restores.clone(),
            directories: plan.change.made_directories.clone(),
        }
    }
}

/// The session's directory must be the one that it was born with.
fn ground(state: &State) -> Result<(), Failure> {
    let workspace = &state.birth.workspace;
    match identity::difference(&workspace.root, &workspace.identity) {
        None => Ok(()),
        Some(reason) => Err(Failure::fixed(
            ErrorCode::RecoveryRequired,
            format!("nothing is undone in {}: {reason}", workspace.root.display()),
            "put the original directory back where it was, then ask again",
        )),
    }
}

/// What stood before the change, as far as it is kept.
fn restored(blobs: &Blobs, changes: &Changes, change: &Change) -> Result<Option<Restored>, Failure> {
    let Some(sha256) = change.before else { return Ok(None) };
    let kept: Option<PathBuf> = blobs.place(sha256);
    match kept {
        Some(kept) => Ok(Some(Restored { kept, sha256, mode: change.mode })),
        None => Err(words::not_kept(changes, change)),
    }
}
