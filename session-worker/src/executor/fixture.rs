//! What the executor's tests share: a folder with a home in it, and recorded replies.

use std::{
    fs,
    path::{Path, PathBuf},
};

use protocol::{
    action::Action,
    canonical::CanonicalJson,
    failure::ToolErrorCode,
    id::{ActionId, TurnId},
    receipt::Receipt,
    recorded::{Ack, RecordId, Recordable, Recorded},
    timestamp::Timestamp,
    tool::ToolName,
    turn::Reply,
};
use sandbox_profiles::{Protected, ProtectedSources};
use serde_json::Value;

use super::{
    outcome::{ToolFailure, ToolOutcome},
    tools::{Stop, Surroundings},
};

/// A folder of its own with `home/.ssh/id` (protected) and `work/`; removed at the end.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn build() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.home().join(".ssh")).unwrap();
        fs::create_dir(place.work("")).unwrap();
        fs::write(place.home().join(".ssh/id"), "secret needle\n").unwrap();
        place
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("home")
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        let work = self.folder.path().canonicalize().unwrap().join("work");
        if name.is_empty() { work } else { work.join(name) }
    }

    /// Writes `work/name`, making its parents.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn around(&self) -> Surroundings {
        let sources = ProtectedSources { homes: vec![self.home()], ..ProtectedSources::default() };
        Surroundings {
            working_directory: self.work(""),
            protected: Protected::gather(&sources),
            stop: Stop::default(),
        }
    }
}

/// The text of a path that is UTF-8.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The receipt of an outcome that is no failure.
pub(crate) fn receipt(outcome: Result<ToolOutcome, ToolFailure>) -> Receipt {
    outcome.unwrap().into_receipt(&action(ToolName::Read, &Value::Null), Timestamp(0))
}

pub(crate) fn code<T>(outcome: &Result<T, ToolFailure>) -> Option<ToolErrorCode> {
    outcome.as_ref().err().map(|failure| failure.code)
}

pub(crate) fn action(tool: ToolName, input: &Value) -> Action {
    Action { action_id: ActionId::mint(), tool, input: CanonicalJson::of(input).unwrap() }
}

pub(crate) fn recorded<T: Recordable>(value: T) -> Recorded<T> {
    let ack = Ack::mint(RecordId { launch: 1, number: 1 }, value.record_digest());
    Recorded::new(value, ack).unwrap()
}

pub(crate) fn reply(actions: &[Action]) -> Recorded<Reply> {
    recorded(Reply {
        reply_id: "key".parse().unwrap(),
        turn_id: TurnId::mint(),
        text: None,
        actions: actions.to_vec(),
    })
}
