//! `session-worker undo FOLDER`: puts back what stood before one change, for the supervisor, which never writes into a project
//! itself. A process of its own: it works where the session has no worker, and does not disturb one that it has.
//!
//! Invariant: nothing of the project changes before the supervisor acknowledged exactly what is about to be done.
//! Invariant: a supervisor that is gone before it did is noticed, and then nothing is done and nothing is left.

mod conversation;
mod told;

use std::{ffi::OsStr, fs, io, os::unix::fs::DirBuilderExt, path::Path, process::ExitCode};

use protocol::{
    action::{Effect, Prepared},
    crash,
    digest::Digest,
    failure::ToolErrorCode,
    limits::VERSIONS_BYTES,
    receipt::Receipt,
    recorded::Recorded,
    timestamp::Timestamp,
    wire::{
        ground::Ground,
        undo::{Restored, UndoLaunch, UndoSaid},
    },
};
use sandbox_profiles::{Protected, Verdict, launch::Helper, probe};

use self::conversation::Conversation;
use crate::{
    executor::{
        atomic_write::{Commit, Current, NewModes, Refusal, Removal, Root, Staged, TempName, Unsynced},
        outcome::{ToolFailure, ToolOutcome},
        versions::{Content, Versions},
    },
    ground, harden,
};

/// What is to be done, in its two kinds.
enum Step<'a> {
    Write(Staged<'a>),
    Remove(Removal<'a>),
}

/// Carries an undo out where this process was started for that; none otherwise.
pub(crate) fn carry_out_if_asked() -> Option<ExitCode> {
    // A session's folder is an absolute path, so that no session is called "undo".
    if std::env::args_os().nth(1).as_deref() != Some(OsStr::new("undo")) {
        return None;
    }
    Some(match undo() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = io::Write::write_all(&mut io::stderr(), format!("undo: {error}\n").as_bytes());
            ExitCode::FAILURE
        }
    })
}

fn undo() -> Result<(), String> {
    harden::harden().map_err(|error| format!("hardening the process failed: {error}"))?;
    let mut supervisor = Conversation::over_standard_streams();
    let launch: UndoLaunch = supervisor.hear().map_err(|error| error.to_string())?;
    let began_at = Timestamp::now();
    let outcome = carry_out(&launch, &mut supervisor).map_err(|error| error.to_string())?;
    let receipt: Receipt = outcome.into_receipt_of(launch.action_id, began_at);
    supervisor.say(&UndoSaid::Done(receipt)).map_err(|error| error.to_string())
}

/// The outcome. The error is one of the supervisor's being gone: then nothing was done.
fn carry_out(launch: &UndoLaunch, supervisor: &mut Conversation) -> io::Result<ToolOutcome> {
    match prepare(launch) {
        Err(failure) => Ok(ToolOutcome::failed(&failure)),
        Ok(ready) => {
            let located = ready.root.locate(&ready.root.path().join(&launch.path));
            let target = match located {
                Ok(target) => target,
                Err(refusal) => return Ok(told::refused(&refusal)),
            };
            match Current::look(&ready.root, &target, &ready.protected) {
                Err(refusal) => Ok(told::refused(&refusal)),
                Ok(current) => change(launch, current, supervisor),
            }
        }
    }
}

/// What stands before anything is looked at.
struct Ready {
    root: Root,
    protected: Protected,
}

fn prepare(launch: &UndoLaunch) -> Result<Ready, ToolFailure> {
    walls(&launch.directory)?;
    let protected = ground::protected(&launch.protected, std::slice::from_ref(&launch.scratch));
    if ground::judge(&protected, &launch.root) == Ground::Protected {
        return Err(ToolFailure::new(ToolErrorCode::ProtectedPath, ground::PROTECTED));
    }
    let root = Root::of_birth(&launch.root, &launch.root_identity);
    Ok(Ready { root: root.map_err(|refusal| told::failure(&refusal))?, protected })
}

/// No process of the gateway works where its walls can't be built, whatever it does.
fn walls(directory: &Path) -> Result<(), ToolFailure> {
    let failed = |error: &dyn std::fmt::Display| {
        let why = format!("trying the walls failed: {error}; gatewayctl doctor says what mends it");
        ToolFailure::new(ToolErrorCode::NotApplied, why)
    };
    let trial = directory.join(format!("undo-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&trial).map_err(|error| failed(&error))?;
    let found = Helper::this_program().map(|helper| probe(&helper, &trial).verdict);
    remove_trial(&trial);
    match found.map_err(|error| failed(&error))? {
        Verdict::Stand => Ok(()),
        Verdict::Refused { found, mend, .. } => Err(failed(&format!("{found}; {mend}"))),
    }
}

#[expect(clippy::disallowed_methods, reason = "removes the empty folder that it made for the trial")]
fn remove_trial(trial: &Path) {
    // It is in the gateway's own folder and in nobody's way.
    let _ = fs::remove_dir(trial);
}

/// Compares, stages, and changes what was recorded.
fn change(
    launch: &UndoLaunch,
    current: Current<'_>,
    supervisor: &mut Conversation,
) -> io::Result<ToolOutcome> {
    let path = match current.canonical_path() {
        Ok(path) => path,
        Err(refusal) => return Ok(told::refused(&refusal)),
    };
    let now = current.content();
    if now.map(|content| content.sha256()) != launch.stands {
        return Ok(told::other(&path, launch.stands, now));
    }
    crash::point("worker-undo-before-stage");
    let (step, note) = match stage(launch, current) {
        Ok(staged) => staged,
        Err(failure) => return Ok(ToolOutcome::failed(&failure)),
    };
    crash::point("worker-undo-after-stage");
    let effect = match &step {
        Step::Write(staged) => Effect::Write(staged.prepared().clone()),
        Step::Remove(removal) => Effect::Remove(removal.prepared().clone()),
    };
    let prepared =
        Prepared { action_id: launch.action_id, prepared_at: Timestamp::now(), effect: effect.clone() };
    supervisor.say(&UndoSaid::Staged(prepared.clone()))?;
    // Dropped without it, what is staged goes.
    let recorded = Recorded::new(prepared, supervisor.hear()?).map_err(io::Error::other)?;
    crash::point("worker-undo-after-recorded");
    let commit: Commit = match step {
        Step::Write(staged) => staged.commit(&recorded),
        Step::Remove(removal) => removal.commit(&recorded),
    };
    crash::point("worker-undo-after-commit");
    Ok(told::outcome((&path, &effect), commit, note.as_deref()))
}

/// What is put back, beside its place; with a note where its versions could not be kept.
fn stage<'a>(launch: &UndoLaunch, current: Current<'a>) -> Result<(Step<'a>, Option<String>), ToolFailure> {
    let name = TempName::for_action(launch.action_id);
    let content = launch.restores.as_ref().map(kept).transpose()?;
    let after = content.as_deref().map(Content::of);
    let note = keep(launch, current.content(), after).err().map(|error| told::not_kept(&error));
    let refused = |refusal: Refusal| told::failure(&refusal);
    let Some(after) = after else {
        let removal = current.removal(name, launch.directories.clone()).map_err(refused)?;
        return Ok((Step::Remove(removal), note));
    };
    let modes = NewModes::under_umask(launch.umask);
    let mode = launch.restores.as_ref().and_then(|restored| restored.mode);
    let modes = mode.map_or(modes, |mode| modes.with_file(mode));
    let staged = current.stage(&after, name, modes).and_then(Unsynced::sync).map_err(refused)?;
    Ok((Step::Write(staged), note))
}

/// The content that is put back, as it was kept.
fn kept(restored: &Restored) -> Result<Vec<u8>, ToolFailure> {
    let lost = |why: String| {
        let text = format!("the version to put back, SHA-256 {}, {why}", restored.sha256);
        ToolFailure::new(ToolErrorCode::NotApplied, text)
    };
    let content = fs::read(&restored.kept).map_err(|error| lost(format!("can't be read: {error}")))?;
    if Digest::of(&content) == restored.sha256 {
        Ok(content)
    } else {
        Err(lost("is damaged; gatewayctl ledger --verify names what else is".to_owned()))
    }
}

/// Both versions, so that the undo can be shown and undone itself.
fn keep(launch: &UndoLaunch, before: Option<Content<'_>>, after: Option<Content<'_>>) -> io::Result<()> {
    let contents: Vec<_> = before.into_iter().chain(after).collect();
    Versions::of_session(&launch.directory, VERSIONS_BYTES).keep_beside(&contents)
}
