//! The pinned instructions on their way to ChatGPT: frozen at the birth of a session, read back for each run's first turn.
//!
//! Invariant: only what answers one of the six calls goes through here; the owner's views never hold them.

use protocol::{failure::Failure, id::SessionId};

use super::gateway::Gateway;
use crate::{
    session::{
        refusal,
        view::{SessionView, SkillInstructions},
    },
    skill::{self, NotFrozen, Skill},
    worker::place,
};

impl Gateway {
    /// Makes the instructions durable in the folder of a session that is about to be recorded.
    pub(super) async fn freeze(&self, session: SessionId, skills: Vec<Skill>) -> Result<(), Failure> {
        if skills.is_empty() {
            return Ok(());
        }
        let folder = place::directory(&self.0.house.config.state, session);
        let frozen = tokio::task::spawn_blocking(move || skill::freeze(&folder, &skills)).await;
        let frozen = frozen.map_err(|_| refusal::internal("keeping the skills"))?;
        frozen.map_err(|error| {
            tracing::error!(%session, %error, "the skills of a start could not be kept");
            refusal::not_kept()
        })
    }

    /// The view with the instructions in it, where it shows the first turn of a run.
    pub(super) async fn with_instructions(&self, mut view: SessionView) -> Result<SessionView, Failure> {
        let first = view.pending_turn.as_ref().is_some_and(|turn| turn.sequence == 1);
        let Ok(session) = view.native_session_id.parse::<SessionId>() else { return Ok(view) };
        if !first || view.skill_snapshot.is_empty() {
            return Ok(view);
        }
        let folder = place::directory(&self.0.house.config.state, session);
        let snapshots = view.skill_snapshot.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = snapshots.into_iter().map(|shown| {
                let (skill_id, body_sha256) = (shown.skill_id, shown.body_sha256);
                skill::thaw(&folder, (&skill_id, &body_sha256)).map(|instructions| SkillInstructions {
                    skill_id,
                    note: skill::NOTE,
                    instructions,
                })
            });
            read.collect::<Result<Vec<_>, NotFrozen>>()
        });
        let instructions = read.await.map_err(|_| refusal::internal("reading the skills"))?;
        let instructions = instructions.map_err(|error| {
            tracing::error!(%session, %error, "a turn can't be shown without its pinned instructions");
            refusal::skill_lost(&error.skill_id)
        })?;
        if let Some(turn) = &mut view.pending_turn {
            turn.skill_instructions = Some(instructions);
        }
        Ok(view)
    }
}
