//! Sessions for the tests of the ledger.

use std::{
    fs,
    path::{Path, PathBuf},
};

use protocol::{
    digest::Digest,
    id::{ClaudeSessionId, IdempotencyKey, LeaseId, SessionId},
    lease::Lease,
    profile::{Profile, SubagentPolicy},
    session::Status,
    timestamp::Timestamp,
    workspace::{RootIdentity, Workspace, WorkspaceKind},
};

use super::{
    Ledger, LedgerError,
    journal::NAME,
    record::{Created, Entry, Record},
    summary::Summary,
};

/// The creation of a session.
pub(super) fn created(id: SessionId, key: &str, at: u64) -> Record {
    let identity =
        RootIdentity { device: 1, inode: 2, filesystem: None, born_at: None, boot: "boot".to_owned() };
    Record {
        at: Timestamp(at),
        entry: Entry::Created(Box::new(Created {
            session_id: id,
            claude_session_id: ClaudeSessionId::mint(),
            idempotency_key: key.parse().unwrap(),
            input: Digest::of(key.as_bytes()),
            workspace: Workspace {
                kind: WorkspaceKind::ReadOnly,
                root: "/project".into(),
                source: "/project".into(),
                identity,
                notes: vec![],
            },
            profile: Profile::ReadOnly,
            subagent_policy: SubagentPolicy::None,
            label: Some(format!("label of {key}")),
            skills: vec![],
            lease: Lease { lease_id: LeaseId::mint(), expires_at: Timestamp(at + 1) },
            lease_millis: 1,
            conversation: None,
            release: "test".to_owned(),
        })),
    }
}

/// A record with `bytes` bytes of text, told from others by its moment.
pub(super) fn note(at: u64, bytes: usize) -> Record {
    Record { at: Timestamp(at), entry: Entry::WorkerGone { launch: 1, detail: "x".repeat(bytes) } }
}

/// What records of a sample session add up to.
pub(super) fn summarise(records: &[Record]) -> Summary {
    let Entry::Created(created) = &records[0].entry else { panic!("no creation") };
    Summary {
        records: records.len() as u64,
        status: Status::Idle,
        label: created.label.clone(),
        created_at: records[0].at,
        updated_at: records[records.len() - 1].at,
        working_directory: created.workspace.root.clone(),
        live: false,
        idempotency_key: created.idempotency_key.clone(),
        input: created.input,
        terminal: false,
    }
}

/// A state directory with its ledger, closed and opened at will.
pub(super) struct State {
    folder: tempfile::TempDir,
}

impl State {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(super) fn open(&self) -> Ledger {
        Ledger::open(&self.path(), summarise).unwrap()
    }

    pub(super) fn journal(&self, id: SessionId) -> PathBuf {
        self.path().join("sessions").join(id.to_string()).join(NAME)
    }

    pub(super) fn index(&self) -> PathBuf {
        self.path().join("index")
    }

    pub(super) fn lose_index(&self) {
        fs::remove_dir_all(self.index()).unwrap();
    }
}

/// Waits for a future of the ledger.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Makes a session with `notes` further records, at moments 1, 2, 3 …
pub(super) fn session(ledger: &Ledger, key: &str, notes: u64) -> SessionId {
    let id = SessionId::mint();
    wait(async {
        ledger.create(id, vec![created(id, key, 1)]).await.unwrap();
        for at in 2..notes + 2 {
            ledger.append(id, vec![note(at, 10)]).await.unwrap();
        }
    });
    id
}

/// The moments of a session's records.
pub(super) fn moments(ledger: &Ledger, id: SessionId) -> Result<Vec<u64>, LedgerError> {
    Ok(ledger.load(id)?.iter().map(|record| record.get().at.0).collect())
}

pub(super) fn key(text: &str) -> IdempotencyKey {
    text.parse().unwrap()
}

pub(super) fn flip(path: &Path, byte: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[byte] ^= 1;
    fs::write(path, bytes).unwrap();
}
