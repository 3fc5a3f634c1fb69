//! What the writing tools promise from the call to the receipt: seen before written, recorded before done, exact.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use protocol::{
    action::{Action, Prepared, PreparedWrite},
    digest::Digest,
    limits::VERSIONS_BYTES,
    receipt::{Facts, FileVersion, Receipt},
    recorded::{Ack, RecordId},
    tool::ToolName,
    wire::to_supervisor::WorkerRecord,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::{
    executor::{
        authorize::{Authority, Released},
        carry_out::{Call, CallRefused, Executor},
        fixture::{Place, action, reply, text},
        tools::Tools,
        versions::FOLDER,
    },
    link::recorder::Request,
};

/// A session that may write below `work/`.
struct Session {
    place: Place,
    folder: tempfile::TempDir,
    seen: Vec<FileVersion>,
}

impl Session {
    fn new() -> Self {
        Self { place: Place::build(), folder: tempfile::tempdir().unwrap(), seen: Vec::new() }
    }

    fn tools(&self) -> Tools {
        let root = self.place.work("");
        Tools::new(self.place.around()).with_writing(Writing {
            identity: RootIdentity::at(&root).unwrap(),
            root,
            modes: NewModes::under_umask(0o027),
            observed: Observations::of_earlier(&self.seen),
            versions: Versions::of_session(self.folder.path(), VERSIONS_BYTES),
        })
    }

    /// Carries out the calls of one reply, one after the other, with a ledger that takes everything.
    async fn calls(&self, calls: &[(ToolName, Value)]) -> Vec<Told> {
        let actions: Vec<Action> = calls.iter().map(|(tool, input)| action(*tool, input)).collect();
        let authority = Authority::default();
        authority.open(&reply(&actions));
        let (recorder, mut records) = Recorder::acknowledging();
        let executor = Executor::new(authority, recorder, self.tools());
        let mut told = Vec::new();
        for action in &actions {
            let receipt = executor.call(call(action)).await.unwrap().get().clone();
            let mut prepared = None;
            let mut record = records.recv().await.unwrap();
            if let WorkerRecord::Prepared(first) = record {
                prepared = Some(first);
                record = records.recv().await.unwrap();
            }
            assert_eq!(record, WorkerRecord::Receipt(receipt.clone()));
            told.push(Told { receipt, prepared });
        }
        told
    }

    async fn one(&self, tool: ToolName, input: Value) -> Told {
        self.calls(&[(tool, input)]).await.remove(0)
    }

    fn kept(&self, content: &[u8]) -> bool {
        let path = self.folder.path().join(FOLDER).join(Digest::of(content).to_string());
        fs::read(path).is_ok_and(|kept| kept == content)
    }
}

/// What became of a call.
struct Told {
    receipt: Receipt,
    prepared: Option<Prepared>,
}

impl Told {
    fn code(&self) -> Option<ToolErrorCode> {
        self.receipt.error
    }

    fn write(&self) -> &PreparedWrite {
        let Effect::Write(write) = &self.prepared.as_ref().unwrap().effect else { panic!() };
        write
    }
}

fn call(action: &Action) -> Call {
    Call { action_id: action.action_id, tool: action.tool, input: action.input.value() }
}

fn read(path: &Path) -> (ToolName, Value) {
    (ToolName::Read, json!({"file_path": text(path)}))
}

fn edit(path: &Path, old: &str, new: &str) -> (ToolName, Value) {
    (ToolName::Edit, json!({"file_path": text(path), "old_string": old, "new_string": new}))
}

fn write(path: &Path, content: &str) -> (ToolName, Value) {
    (ToolName::Write, json!({"file_path": text(path), "content": content}))
}

#[tokio::test(flavor = "current_thread")]
async fn an_edit_changes_its_bytes_and_tells_what_it_did() {
    let session = Session::new();
    let before = b"\xef\xbb\xbfone\r\ntwo\nthree".as_slice();
    let after = b"\xef\xbb\xbfone\r\nzwei\nthree".as_slice();
    let file = session.place.put("a.txt", before);
    let told = session.calls(&[read(&file), edit(&file, "two", "zwei")]).await;
    assert_eq!(fs::read(&file).unwrap(), after);
    let [_, told] = told.as_slice() else { panic!() };
    let wrote = FileVersion { path: text(&file), sha256: Digest::of(after), bytes: after.len() as u64 };
    assert_eq!(told.receipt.facts, Facts::Wrote { before: Some(Digest::of(before)), after: wrote });
    assert_eq!(told.write().path, Path::new("a.txt"));
    assert_eq!((told.write().before, told.write().after), (Some(Digest::of(before)), Digest::of(after)));
    let content = &told.receipt.content;
    for part in
        ["1 place replaced, in line 2", "-two\n+zwei\n", &Digest::of(after).to_string(), "@@ -1,3 +1,3 @@"]
    {
        assert!(content.contains(part), "{part}: {content}");
    }
    assert!(session.kept(before) && session.kept(after));
    assert_eq!(fs::read_dir(session.place.work("")).unwrap().count(), 1, "nothing else is left");
}

#[tokio::test(flavor = "current_thread")]
async fn a_file_that_was_not_seen_as_it_is_stays_and_its_digest_is_told() {
    let session = Session::new();
    let file = session.place.put("a.txt", "one\n");
    for (tool, input) in [edit(&file, "one", "two"), write(&file, "new")] {
        let told = session.one(tool, input).await;
        assert_eq!(told.code(), Some(ToolErrorCode::StaleRead), "{tool:?}");
        assert!(told.receipt.content.contains(&Digest::of(b"one\n").to_string()));
        assert!(told.prepared.is_none(), "nothing is prepared");
    }
    // Seen, then changed by another program.
    let mut session = session;
    session.seen = vec![FileVersion { path: text(&file), sha256: Digest::of(b"zero\n"), bytes: 5 }];
    let told = session.one(ToolName::Edit, edit(&file, "one", "two").1).await;
    assert_eq!(told.code(), Some(ToolErrorCode::StaleRead));
    assert!(told.receipt.content.contains("has changed"), "{}", told.receipt.content);
    assert_eq!(fs::read(&file).unwrap(), b"one\n");
    // What an earlier process of the session saw counts.
    session.seen = vec![FileVersion { path: text(&file), sha256: Digest::of(b"one\n"), bytes: 4 }];
    let told = session.one(ToolName::Edit, edit(&file, "one", "two").1).await;
    assert_eq!(told.code(), None);
    assert_eq!(fs::read(&file).unwrap(), b"two\n");
}

#[tokio::test(flavor = "current_thread")]
async fn the_sessions_own_writes_count_as_seen() {
    let session = Session::new();
    let file = session.place.work("new/deep/a.txt");
    let told = session
        .calls(&[
            write(&file, "one\n"),
            edit(&file, "one", "two"),
            write(&file, "three"),
            write(&file, "three"),
        ])
        .await;
    assert_eq!(told.iter().map(Told::code).collect::<Vec<_>>(), [None; 4]);
    assert_eq!(fs::read(&file).unwrap(), b"three");
    assert_eq!(told[0].write().made_directories, [PathBuf::from("new"), PathBuf::from("new/deep")]);
    assert!(told[0].receipt.content.contains("2 directories made"));
    assert!(told[3].prepared.is_none() && told[3].receipt.content.contains("nothing was written"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o640, 0o750), "the user's umask decides");
}

#[tokio::test(flavor = "current_thread")]
async fn a_notebooks_cell_is_changed_by_its_id() {
    let session = Session::new();
    let cell = |source: &str| {
        format!(
            "{{\"cell_type\": \"markdown\", \"id\": \"a\", \"metadata\": {{}}, \"source\": \"{source}\"}}"
        )
    };
    let notebook = |source| {
        format!(
            "{{\"cells\": [{}], \"metadata\": {{}}, \"nbformat\": 4, \"nbformat_minor\": 5}}\n",
            cell(source)
        )
    };
    let file = session.place.put("n.ipynb", notebook("one"));
    let input = |id: &str| json!({"notebook_path": text(&file), "cell_id": id, "new_source": "two", "edit_mode": "replace"});
    let told = session
        .calls(&[read(&file), (ToolName::NotebookEdit, input("b")), (ToolName::NotebookEdit, input("a"))])
        .await;
    assert_eq!(told[1].code(), Some(ToolErrorCode::NoMatch));
    assert!(told[2].receipt.content.contains("cell 0 (id \"a\") replaced"), "{}", told[2].receipt.content);
    assert_eq!(fs::read_to_string(&file).unwrap(), notebook("two"));
}

#[tokio::test(flavor = "current_thread")]
async fn every_refusal_has_its_code_and_leaves_everything_as_it_is() {
    let session = Session::new();
    let place = &session.place;
    let file = place.put("a.txt", "one one\n");
    place.put(".git/config", "x");
    let outside = place.home().join("a.txt");
    symlink(&file, place.work("link")).unwrap();
    symlink(place.home(), place.work("away")).unwrap();
    fs::hard_link(place.put("b.txt", "b"), place.work("c.txt")).unwrap();
    let protected = place.home().join(".ssh/new");
    let cases = [
        (edit(&file, "three", "x"), ToolErrorCode::NoMatch),
        (edit(&file, "one", "x"), ToolErrorCode::AmbiguousMatch),
        (edit(&place.work("absent"), "one", "x"), ToolErrorCode::NotFound),
        (edit(&place.work("A.txt"), "one", "x"), ToolErrorCode::NotFound),
        (write(&outside, "x"), ToolErrorCode::OutsideRoot),
        (write(&place.work("away/x"), "x"), ToolErrorCode::OutsideRoot),
        (write(&protected, "x"), ToolErrorCode::OutsideRoot),
        (write(&place.work("link"), "x"), ToolErrorCode::NotRegular),
        (write(&place.work("c.txt"), "x"), ToolErrorCode::NotRegular),
        (write(&place.work(".git/hooks/x"), "x"), ToolErrorCode::ProtectedPath),
        (write(&place.work(""), "x"), ToolErrorCode::InvalidArgument),
    ];
    let before = fs::read_dir(place.work("")).unwrap().count();
    for ((tool, input), code) in cases {
        let told = session.calls(&[read(&file), (tool, input.clone())]).await.remove(1);
        assert_eq!(told.code(), Some(code), "{input}: {}", told.receipt.content);
        assert!(told.prepared.is_none(), "{input}");
    }
    assert_eq!(fs::read_dir(place.work("")).unwrap().count(), before);
    assert_eq!(fs::read(&file).unwrap(), b"one one\n");
    assert!(!outside.exists());
}

#[tokio::test(flavor = "current_thread")]
async fn a_root_that_was_replaced_is_not_written() {
    let session = Session::new();
    let tools = session.tools();
    let root = session.place.work("");
    fs::rename(&root, root.with_extension("old")).unwrap();
    fs::create_dir(&root).unwrap();
    let action = action(ToolName::Write, &write(&root.join("a"), "x").1);
    let authority = Authority::default();
    authority.open(&reply(std::slice::from_ref(&action)));
    let (recorder, _records) = Recorder::acknowledging();
    let told = Executor::new(authority, recorder, tools).call(call(&action)).await.unwrap();
    assert_eq!(told.get().error, Some(ToolErrorCode::NotApplied));
    assert!(told.get().content.contains("moved or replaced"), "{}", told.get().content);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

/// A session whose records the test acknowledges itself.
async fn begun(
    session: &Session,
    change: (ToolName, Value),
) -> (tokio::task::JoinHandle<Result<Released, CallRefused>>, mpsc::Receiver<Request>) {
    let action = action(change.0, &change.1);
    let authority = Authority::default();
    authority.open(&reply(std::slice::from_ref(&action)));
    let (recorder, requests) = Recorder::new();
    let executor = Executor::new(authority, recorder, session.tools());
    let call = call(&action);
    (tokio::spawn(async move { executor.call(call).await }), requests)
}

#[tokio::test(flavor = "current_thread")]
async fn the_file_changes_only_after_its_record() {
    let mut session = Session::new();
    let file = session.place.put("a.txt", "one\n");
    session.seen = vec![FileVersion { path: text(&file), sha256: Digest::of(b"one\n"), bytes: 4 }];
    let (_call, mut requests) = begun(&session, edit(&file, "one", "two")).await;
    let Request { what, done } = requests.recv().await.unwrap();
    assert!(matches!(what, WorkerRecord::Prepared(_)));
    // Both versions are kept without waiting for the record, and before the change.
    let kept = async {
        while !(session.kept(b"one\n") && session.kept(b"two\n")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), kept).await.unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"one\n");
    done.send(Ack::mint(RecordId { launch: 1, number: 1 }, what.digest())).unwrap();
    let Request { what, .. } = requests.recv().await.unwrap();
    assert!(matches!(what, WorkerRecord::Receipt(_)));
    assert_eq!(fs::read(&file).unwrap(), b"two\n");
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_not_recorded_does_not_happen_and_leaves_nothing() {
    let mut session = Session::new();
    let file = session.place.put("a.txt", "one\n");
    session.seen = vec![FileVersion { path: text(&file), sha256: Digest::of(b"one\n"), bytes: 4 }];
    let (call, mut requests) = begun(&session, edit(&file, "one", "two")).await;
    drop(requests.recv().await.unwrap().done);
    let Request { what, done } = requests.recv().await.unwrap();
    let WorkerRecord::Receipt(receipt) = what else { panic!() };
    assert_eq!(receipt.error, Some(ToolErrorCode::NotApplied));
    drop(done);
    assert!(call.await.unwrap().is_err());
    assert_eq!(fs::read(&file).unwrap(), b"one\n");
    assert_eq!(fs::read_dir(session.place.work("")).unwrap().count(), 1);
}

#[tokio::test(flavor = "current_thread")]
async fn a_change_by_another_program_while_it_is_recorded_is_not_lost() {
    let mut session = Session::new();
    let file = session.place.put("a.txt", "one\n");
    session.seen = vec![FileVersion { path: text(&file), sha256: Digest::of(b"one\n"), bytes: 4 }];
    let (_call, mut requests) = begun(&session, edit(&file, "one", "two")).await;
    let Request { what, done } = requests.recv().await.unwrap();
    fs::write(&file, "theirs\n").unwrap();
    done.send(Ack::mint(RecordId { launch: 1, number: 1 }, what.digest())).unwrap();
    let WorkerRecord::Receipt(receipt) = requests.recv().await.unwrap().what else { panic!() };
    assert_eq!(receipt.error, Some(ToolErrorCode::StaleRead));
    assert!(receipt.content.contains(&Digest::of(b"theirs\n").to_string()));
    assert_eq!(fs::read(&file).unwrap(), b"theirs\n");
    assert_eq!(fs::read_dir(session.place.work("")).unwrap().count(), 1);
}

#[tokio::test(flavor = "current_thread")]
async fn a_version_that_can_t_be_kept_is_said_and_the_change_is_made() {
    let session = Session::new();
    fs::write(session.folder.path().join(FOLDER), "in the way").unwrap();
    let file = session.place.work("a.txt");
    let told = session.one(ToolName::Write, write(&file, "one").1).await;
    assert_eq!(told.code(), None);
    assert!(told.receipt.content.contains("can't be undone"), "{}", told.receipt.content);
    assert_eq!(fs::read(&file).unwrap(), b"one");
}
