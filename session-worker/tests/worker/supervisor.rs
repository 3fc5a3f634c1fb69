//! A supervisor that a test drives by hand: it launches workers, records in memory, and drops its connection when it likes.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use protocol::{
    action::Action,
    canonical::CanonicalJson,
    id::{ActionId, ClaudeSessionId, InstanceId, RunId, SessionId, TurnId},
    profile::{Profile, SubagentPolicy},
    recorded::{Ack, RecordId, Recordable},
    secret::Secret,
    timestamp::Timestamp,
    tool::ToolName,
    turn::{Reply, Turn},
    wire::{
        frame,
        hello::{self, Role},
        launch::{ClaudeLaunch, ProtectedRoots, WorkerLaunch},
        to_supervisor::{EndReason, ToSupervisor, WorkerRecord, WorkerState},
        to_worker::ToWorker,
    },
};
use serde_json::Value;
use tokio::{net::UnixStream, time::timeout};

/// How long anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The real Claude Code: `CLAUDE_BIN`, or the pinned one, fetched when it is missing.
pub(crate) fn claude_code() -> PathBuf {
    if let Some(given) = std::env::var_os("CLAUDE_BIN") {
        return given.into();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/claude-code");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().last().unwrap().into()
}

/// A session's folders, its launches, and what was recorded of it.
pub(crate) struct Session {
    folder: tempfile::TempDir,
    pub(crate) launch: WorkerLaunch,
    worker: Option<Child>,
    pub(crate) ledger: BTreeMap<RecordId, WorkerRecord>,
}

impl Session {
    pub(crate) fn new(program: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["session", "root", "scratch", "home"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let launch = WorkerLaunch {
            session_id: SessionId::mint(),
            instance: InstanceId::mint(),
            launch: 0,
            link_key: Secret::random().unwrap(),
            socket: base.join("run/w.sock"),
            directory: base.join("session"),
            expires_at: Timestamp::now().plus(Duration::from_secs(3600)),
            profile: Profile::ReadOnly,
            subagent_policy: SubagentPolicy::None,
            root: base.join("root"),
            root_identity: None,
            observed: vec![],
            umask: 0o022,
            claude: ClaudeLaunch { program, session_id: ClaudeSessionId::mint(), resume: false },
            protected: ProtectedRoots {
                homes: vec![base.join("home")],
                own: vec![base.join("session")],
                added: vec![],
            },
            // What stands beside it are other sessions' and closed.
            scratch: base.join("scratch/own"),
            command_environment: vec![],
            delegation: None,
            subsessions: Vec::new(),
        };
        Self { folder, launch, worker: None, ledger: BTreeMap::new() }
    }

    /// Starts the next worker process.
    pub(crate) fn start(&mut self) {
        self.launch.instance = InstanceId::mint();
        self.launch.launch += 1;
        self.launch.claude.resume = self.launch.launch > 1;
        let mut child = Command::new(env!("CARGO_BIN_EXE_session-worker"))
            .arg(&self.launch.directory)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = serde_json::to_vec(&self.launch).unwrap();
        line.push(b'\n');
        child.stdin.take().unwrap().write_all(&line).unwrap();
        self.worker = Some(child);
    }

    pub(crate) fn root(&self) -> &Path {
        &self.launch.root
    }

    pub(crate) fn worker_pid(&self) -> u32 {
        self.worker.as_ref().unwrap().id()
    }

    /// The pid and command line of the worker's Claude Code, once it runs.
    pub(crate) async fn claude(&self) -> (i32, String) {
        let worker = self.worker_pid();
        let program = self.launch.claude.program.to_str().unwrap().to_owned();
        until("Claude Code runs", || {
            // It lives in its cage, below the processes that keep that.
            let mut open = vec![worker.to_string()];
            while let Some(pid) = open.pop() {
                let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                if line.starts_with(&program) {
                    return Some((pid.parse().unwrap(), line.replace('\0', " ")));
                }
                let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
                open.extend(children.unwrap_or_default().split_whitespace().map(str::to_owned));
            }
            None
        })
        .await
    }

    /// Waits until the worker has ended and looks that nothing of it is left.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut worker = self.worker.take().unwrap();
        let status = until("the worker ends", || worker.try_wait().unwrap()).await;
        assert!(!self.launch.socket.exists(), "the socket is gone");
        assert_eq!(self.processes(), Vec::<String>::new(), "no process of the session is left");
        status
    }

    /// Command lines of processes that speak of this session.
    fn processes(&self) -> Vec<String> {
        let name = self.folder.path().to_str().unwrap();
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
            .filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok())
            .filter(|line| line.contains(name))
            .collect()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.launch.directory.join("worker.log")).unwrap_or_default()
    }

    /// Connects and proves itself.
    pub(crate) async fn attach(&mut self) -> Attached<'_> {
        let begun = Instant::now();
        let mut stream = loop {
            match UnixStream::connect(&self.launch.socket).await {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < LIMIT, "{error}\n{}", self.log()),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        hello::exchange(&mut stream, Role::Supervisor, self.launch.session_id, &self.launch.link_key)
            .await
            .unwrap();
        let Some(ToSupervisor::Attached(state)) = frame::receive(&mut stream).await.unwrap() else {
            panic!("the first message says how things stand")
        };
        assert_eq!((state.instance, state.launch), (self.launch.instance, self.launch.launch));
        Attached { session: self, stream, state }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            // The worker ends Claude Code before itself.
            let pid = nix::unistd::Pid::from_raw(i32::try_from(worker.id()).unwrap());
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            let _ = worker.wait();
        }
        if std::thread::panicking() {
            eprintln!("worker.log:\n{}", self.log());
        }
    }
}

/// A connection to the worker.
pub(crate) struct Attached<'a> {
    pub(crate) session: &'a mut Session,
    stream: UnixStream,
    pub(crate) state: WorkerState,
}

impl Attached<'_> {
    pub(crate) async fn send(&mut self, message: ToWorker) {
        frame::send(&mut self.stream, &message).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> ToSupervisor {
        let next = timeout(LIMIT, frame::receive(&mut self.stream)).await;
        let next = next.unwrap_or_else(|_| panic!("the worker says something\n{}", self.session.log()));
        next.unwrap().unwrap_or_else(|| panic!("the worker closed the link\n{}", self.session.log()))
    }

    /// The next record, not acknowledged.
    pub(crate) async fn record(&mut self) -> (RecordId, WorkerRecord) {
        match self.next().await {
            ToSupervisor::Record { record, what } => {
                let known = self.session.ledger.entry(record).or_insert_with(|| what.clone());
                assert_eq!(known, &what, "a record keeps its content");
                (record, what)
            }
            other => panic!("a record, not {other:?}\n{}", self.session.log()),
        }
    }

    pub(crate) async fn acknowledge(&mut self, record: RecordId) {
        let digest = self.session.ledger[&record].digest();
        self.send(ToWorker::Ack(Ack::mint(record, digest))).await;
    }

    /// Acknowledges records until one is what was waited for.
    pub(crate) async fn until<T>(&mut self, mut wanted: impl FnMut(&WorkerRecord) -> Option<T>) -> T {
        loop {
            let (record, what) = self.record().await;
            self.acknowledge(record).await;
            if let Some(found) = wanted(&what) {
                return found;
            }
        }
    }

    pub(crate) async fn begin(&mut self, prompt: &str) -> RunId {
        let run_id = RunId::mint();
        self.send(ToWorker::BeginRun { run_id, prompt: prompt.to_owned() }).await;
        run_id
    }

    pub(crate) async fn turn(&mut self) -> Turn {
        self.until(|what| match what {
            WorkerRecord::TurnOpened(turn) => Some(turn.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn deliver(&mut self, reply: Reply) {
        let record = RecordId { launch: 0, number: 1 };
        let ack = Ack::mint(record, reply.record_digest());
        self.send(ToWorker::DeliverReply { reply, ack }).await;
    }

    /// The worker's last words, after everything was acknowledged.
    pub(crate) async fn end(&mut self) -> EndReason {
        loop {
            match self.next().await {
                ToSupervisor::Record { record, what } => {
                    self.session.ledger.insert(record, what);
                    self.acknowledge(record).await;
                }
                ToSupervisor::Ended(reason) => {
                    assert_eq!(self.next().await, ToSupervisor::Bye);
                    return reason;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn text(turn: TurnId, text: &str) -> Reply {
    Reply { reply_id: "text".parse().unwrap(), turn_id: turn, text: Some(text.to_owned()), actions: vec![] }
}

pub(crate) fn calls(turn: TurnId, inputs: &[(ToolName, Value)]) -> Reply {
    let action = |(tool, input): &(ToolName, Value)| Action {
        action_id: ActionId::mint(),
        tool: *tool,
        input: CanonicalJson::of(input).unwrap(),
    };
    Reply {
        reply_id: "calls".parse().unwrap(),
        turn_id: turn,
        text: Some("Looking.".to_owned()),
        actions: inputs.iter().map(action).collect(),
    }
}

/// What `look` finds, as soon as it finds something.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "waited in vain for this: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
