//! A supervisor with a home, a state and a workspace of its own.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    Client, binaries,
    processes::{self, Process},
    until,
};

/// A start with a few stored sessions takes milliseconds; the rest is a busy machine.
const READY: Duration = Duration::from_secs(60);

/// A drain may take two seconds.
const EXIT: Duration = Duration::from_secs(30);

/// What `gatewayctl` answered.
#[derive(Debug)]
pub struct Ctl {
    /// Its exit code.
    pub code: i32,
    /// What `--json` printed; null where nothing was.
    pub json: Value,
    /// Its complaints.
    pub stderr: String,
}

/// A running gateway. Dropping it ends every process that belongs to it.
#[derive(Debug)]
pub struct Gateway {
    folder: tempfile::TempDir,
    /// The state directory.
    pub state: PathBuf,
    /// A workspace for sessions.
    pub work: PathBuf,
    /// The environment of its programs.
    pub environment: BTreeMap<String, String>,
    /// The client that speaks to it.
    pub client: Client,
    supervisor: Child,
    /// What the programs are started by; empty where they start by themselves.
    wrapper: Vec<String>,
}

impl Gateway {
    /// Starts a gateway with nothing special.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a gateway with these settings in its environment.
    ///
    /// # Panics
    /// Where it does not come up.
    #[must_use]
    pub fn with(settings: &[(&str, &str)]) -> Self {
        Self::build(settings, &[], |_, _| ())
    }

    /// Starts a gateway with these settings and those that `prepare` puts in, which is given the folder that goes with it.
    #[must_use]
    pub fn prepared(
        settings: &[(&str, &str)],
        prepare: impl FnOnce(&Path, &mut BTreeMap<String, String>),
    ) -> Self {
        Self::build(settings, &[], prepare)
    }

    /// Starts a gateway whose programs are started by this command, which takes their command line as further arguments.
    ///
    /// # Panics
    /// Where it does not come up.
    #[must_use]
    pub fn behind(wrapper: &[&str]) -> Self {
        Self::build(&[], wrapper, |_, _| ())
    }

    fn build(
        settings: &[(&str, &str)],
        wrapper: &[&str],
        prepare: impl FnOnce(&Path, &mut BTreeMap<String, String>),
    ) -> Self {
        let wrapper: Vec<String> = wrapper.iter().map(|word| (*word).to_owned()).collect();
        let folder = tempfile::Builder::new().prefix("gw-").tempdir().expect("a temporary folder");
        // The physical path: on macOS the temporary folder's usual path is a link.
        let root = folder.path().canonicalize().expect("the folder is there");
        let (home, state, work) = (root.join("home"), root.join("state"), root.join("work"));
        for made in [&home, &work] {
            fs::create_dir(made).expect("a folder");
        }
        let text = |path: &Path| path.to_str().expect("a path of UTF-8").to_owned();
        let mut environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("HOME".to_owned(), text(&home)),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("CLAUDE_TOOLS_STATE_DIR".to_owned(), text(&state)),
            ("CLAUDE_TOOLS_LISTEN".to_owned(), "127.0.0.1:0".to_owned()),
            ("CLAUDE_BIN".to_owned(), text(binaries::claude_code())),
            // Where a test is killed before it can clear up, its workers end by themselves.
            ("CLAUDE_TOOLS_LEASE_SECONDS".to_owned(), "600".to_owned()),
        ]);
        environment.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        prepare(&root, &mut environment);
        let (supervisor, client) = launch(&environment, &root, &wrapper);
        environment.insert("CLAUDE_TOOLS_LISTEN".to_owned(), client.address.to_string());
        Self { folder, state, work, environment, client, supervisor, wrapper }
    }

    /// A program of the gateway with this gateway's environment.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        command((&self.environment, &self.wrapper), self.folder.path(), program)
    }

    /// The supervisor's pid.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.supervisor.id()).expect("a pid")
    }

    /// What the supervisor logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("supervisor.log")).unwrap_or_default()
    }

    /// Whether the supervisor runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.supervisor.try_wait(), Ok(None))
    }

    /// SIGKILL, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }

    /// Starts the supervisor again, at the same address. It must be down.
    pub fn start_again(&mut self) {
        let root = self.state.parent().expect("the state lies in the folder").to_owned();
        (self.supervisor, self.client) = launch(&self.environment, &root, &self.wrapper);
    }

    /// Tries to start the supervisor again, which may die at it. Whether it is ready.
    pub fn try_to_start_again(&mut self) -> bool {
        let root = self.state.parent().expect("the state lies in the folder").to_owned();
        match try_launch(&self.environment, &root, &self.wrapper) {
            Ok((supervisor, client)) => (self.supervisor, self.client) = (supervisor, client),
            Err(_) => return false,
        }
        true
    }

    /// A crash and a new start.
    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// SIGTERM: the exit code.
    ///
    /// # Panics
    /// Where the supervisor does not end.
    pub fn terminate(&mut self) -> Option<i32> {
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        until("the supervisor ends after SIGTERM", EXIT, || self.supervisor.try_wait().expect("our child"))
            .code()
    }

    /// Workers of this gateway and what they started.
    #[must_use]
    pub fn runners(&self) -> Vec<Process> {
        let mut found = processes::naming(&format!("{}/sessions/", self.state.display()));
        found.extend(processes::naming(&format!("{}-work/scratch/", self.state.display())));
        found.sort_by_key(|p| p.pid);
        found.dedup_by_key(|p| p.pid);
        found.retain(|p| p.pid != self.pid());
        found
    }

    /// The one Claude Code of this gateway.
    ///
    /// # Panics
    /// Where there is none, or more than one.
    #[must_use]
    pub fn claude_code(&self) -> Process {
        let mut found: Vec<_> = self.runners().into_iter().filter(Process::is_claude_code).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    /// Waits until no worker, and nothing that one started, is left.
    ///
    /// # Panics
    /// With those that stay.
    pub fn wait_for_no_runners(&self) {
        let mut left = Vec::new();
        until("every runner is gone", Duration::from_secs(30), || {
            left = self.runners();
            left.is_empty().then_some(())
        });
    }

    /// `gatewayctl` with `--json`.
    ///
    /// # Panics
    /// Where it prints something that is no JSON.
    #[must_use]
    pub fn ctl(&self, arguments: &[&str]) -> Ctl {
        let Output { status, stdout, stderr } =
            self.command("gatewayctl").args(arguments).arg("--json").output().expect("gatewayctl starts");
        let json = if stdout.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&stdout)
                .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&stdout)))
        };
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Ctl { code: status.code().unwrap_or(-1), json, stderr }
    }
}

#[expect(clippy::print_stderr, reason = "a failed test shows where its evidence is")]
impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
        for process in self.runners() {
            process.kill();
        }
        if thread::panicking() {
            let log = self.log();
            let tail = log.len().saturating_sub(4_000);
            eprintln!("the supervisor's log ends:\n{}", log.get(tail..).unwrap_or(&log));
            self.folder.disable_cleanup(true);
            eprintln!("kept: {}", self.folder.path().display());
        }
    }
}

fn command(
    (environment, wrapper): (&BTreeMap<String, String>, &[String]),
    folder: &Path,
    program: &str,
) -> Command {
    let program = binaries::program(program);
    let mut command = match wrapper.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.env_clear().envs(environment).current_dir(folder).stdin(Stdio::null());
    command
}

fn launch(environment: &BTreeMap<String, String>, folder: &Path, wrapper: &[String]) -> (Child, Client) {
    try_launch(environment, folder, wrapper).unwrap_or_else(|why| panic!("{why}"))
}

fn try_launch(
    environment: &BTreeMap<String, String>,
    folder: &Path,
    wrapper: &[String],
) -> Result<(Child, Client), String> {
    let log = folder.join("supervisor.log");
    let errors = File::options().create(true).append(true).open(&log).expect("a log file");
    let mut child = command((environment, wrapper), folder, "gateway-supervisor")
        .arg("serve")
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .expect("the supervisor starts");
    let stdout = child.stdout.take().expect("stdout is piped");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = sender.send(line);
    });
    let line = receiver.recv_timeout(READY).unwrap_or_default();
    let Ok(ready) = serde_json::from_str::<Value>(&line) else {
        let _ = child.kill();
        let status = child.wait();
        let log = fs::read_to_string(&log).unwrap_or_default();
        return Err(format!("no ready line but {line:?} ({status:?}); the log: {log}"));
    };
    assert_eq!(ready["event"], "ready", "{ready}");
    let url = ready["mcp_url"].as_str().expect("an mcp_url");
    let address = url
        .strip_prefix("http://")
        .and_then(|rest| rest.strip_suffix("/mcp"))
        .and_then(|address| address.parse().ok())
        .unwrap_or_else(|| panic!("no address in {url}"));
    let file = ready["token_file"].as_str().expect("a token_file");
    let token = fs::read_to_string(file).expect("the token can be read").trim().to_owned();
    Ok((child, Client { address, token }))
}
