//! The attacked: a home with secrets, servers that count visits, and a process with a secret in its environment.

use crate::attacks::{Attack, In, all};
use sandbox_profiles::{
    AbsolutePath, Network, Protected, ProtectedSources, SandboxSpec,
    launch::{Caged, ClaudeCage, CommandCages, Helper, Program, libraries_of, spawn_command},
};
use std::{
    collections::BTreeMap,
    error::Error,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, symlink},
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

type Failable<T> = Result<T, Box<dyn Error>>;

/// How each attempt ended: an error number, 0 for success.
type Answers = BTreeMap<String, i32>;

struct Host {
    folder: tempfile::TempDir,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    streams: Vec<UnixListener>,
    datagrams: UnixDatagram,
    abstract_name: String,
}

impl Host {
    fn build() -> Failable<Self> {
        let folder = tempfile::Builder::new().prefix("hostile").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let at = |name: &str| folder.path().join(name);
        for name in ["home/.ssh", "home/project", "home/state", "scratch"] {
            fs::create_dir_all(at(name))?;
        }
        for name in ["home/.ssh/id", "home/.netrc", "home/.npmrc", "home/state/token", "home/project/main.rs"]
        {
            fs::write(at(name), "secret")?;
        }
        symlink(at("home/.ssh"), at("home/project/link"))?;
        fs::hard_link(at("home/.ssh/id"), at("home/project/twin"))?;
        let abstract_name = format!("hostile-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&abstract_name)?;
        let streams = vec![
            UnixListener::bind(at("home/project/docker.sock"))?,
            UnixListener::bind(at("home/project/agent.sock"))?,
            UnixListener::bind_addr(&named)?,
        ];
        let datagrams = UnixDatagram::bind(at("home/project/log.sock"))?;
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        for stream in &streams {
            stream.set_nonblocking(true)?;
        }
        datagrams.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        let victim =
            Command::new("/bin/sleep").arg("1000").env("TOKEN", "secret").stdin(Stdio::null()).spawn()?;
        Ok(Host { folder, victim, tcp, udp, streams, datagrams, abstract_name })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap_or_default().join(name)
    }

    /// How often anything on this side was reached.
    fn visits(&self) -> usize {
        let mut buffer = [0_u8; 64];
        let streams = self.streams.iter().filter(|stream| stream.accept().is_ok()).count();
        streams
            + usize::from(self.tcp.accept().is_ok())
            + usize::from(self.udp.recv(&mut buffer).is_ok())
            + usize::from(self.datagrams.recv(&mut buffer).is_ok())
    }

    fn program(&self, cage: &str, port: u16) -> Failable<Program> {
        let own = std::env::current_exe()?.canonicalize()?;
        let text = |name: &str, value: &dyn std::fmt::Display| OsString::from(format!("{name}={value}"));
        let arguments = vec![
            own.clone().into_os_string(),
            "attack".into(),
            text("cage", &cage),
            text("home", &self.at("home").display()),
            text("scratch", &self.at("scratch").display()),
            text("victim", &self.victim.id()),
            text("tcp", &self.tcp.local_addr()?.port()),
            text("udp", &self.udp.local_addr()?.port()),
            text("abstract", &self.abstract_name),
            text("port", &port),
        ];
        let directory = AbsolutePath::new(self.at("scratch"))?;
        Ok(Program { path: AbsolutePath::new(own)?, arguments, directory, environment: Vec::new() })
    }

    fn in_command_cage(&self) -> Failable<Answers> {
        let sources = ProtectedSources {
            homes: vec![self.at("home")],
            own: vec![self.at("home/state")],
            added: Vec::new(),
            ..ProtectedSources::default()
        };
        let mut protected = Protected::gather(&sources).paths();
        protected.push(AbsolutePath::new(self.at("home/project/twin"))?);
        let spec = SandboxSpec::command(AbsolutePath::new(self.at("scratch"))?, protected);
        let cages = CommandCages::open(&Helper::this_program()?)?;
        self.attacked_by(spawn_command(&cages, &spec, &self.program("command", 0)?)?)
    }

    fn in_claude_cage(&self) -> Failable<Answers> {
        let network = Network::LoopbackListener { port: 0 };
        let (cage, listener) = ClaudeCage::open(&Helper::this_program()?, network)?;
        let program = self.program("claude", listener.local_addr()?.port())?;
        let scratch = AbsolutePath::new(self.at("scratch"))?;
        let spec = SandboxSpec::claude(scratch, Vec::new(), libraries_of(&program.path)?);
        self.attacked_by(cage.spawn(&spec, &program)?)
    }

    fn attacked_by(&self, mut caged: Caged) -> Failable<Answers> {
        let (Some(mut start), Some(output), Some(mut errors)) =
            (caged.stdin.take(), caged.stdout.take(), caged.stderr.take())
        else {
            return Err("a cage without its streams".into());
        };
        let mut output = BufReader::new(output);
        output.read_line(&mut String::new())?;
        // Meanwhile the user's own programs go on: one replaces its credentials, another makes a new store.
        fs::write(self.at("home/.npmrc.new"), "secret")?;
        fs::rename(self.at("home/.npmrc.new"), self.at("home/.npmrc"))?;
        fs::create_dir_all(self.at("home/.gnupg"))?;
        fs::write(self.at("home/.gnupg/key"), "secret")?;
        start.write_all(b"go\n")?;
        let mut answers = Answers::new();
        for line in output.lines() {
            if let Some((name, errno)) = line?.split_once('\t') {
                answers.insert(name.to_owned(), errno.parse()?);
            }
        }
        let mut said = String::new();
        errors.read_to_string(&mut said)?;
        let ending = caged.wait()?;
        if answers.is_empty() {
            return Err(format!("the attacker ended without a word: {ending:?} {said}").into());
        }
        Ok(answers)
    }

    /// Ready for the next attacker: an empty scratch, no store that was made meanwhile.
    fn tidy(&self) -> Failable<()> {
        fs::remove_dir_all(self.at("scratch"))?;
        fs::create_dir(self.at("scratch"))?;
        if self.at("home/.gnupg").exists() {
            fs::remove_dir_all(self.at("home/.gnupg"))?;
        }
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have been killed by an attacker; then there is nothing left to do.
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn expected_in(place: In) -> impl Iterator<Item = &'static Attack> {
    all().filter(move |attack| attack.place == place || attack.place == In::Both)
}

fn name_of(errno: i32) -> String {
    match errno {
        0 => "succeeded".into(),
        errno => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

fn judge(title: &str, place: In, answers: &Answers) -> usize {
    let mut wrong = 0;
    println!("# {title}");
    for attack in expected_in(place) {
        let errno = answers.get(attack.name).copied().unwrap_or(-1);
        let held = if attack.errors.is_empty() { errno == 0 } else { attack.errors.contains(&errno) };
        wrong += usize::from(!held);
        println!("{} {:<58} {}", if held { "   " } else { "!! " }, attack.name, name_of(errno));
    }
    wrong
}

fn attack_both() -> Failable<usize> {
    let mut host = Host::build()?;
    let mut wrong = judge("A command's cage", In::Command, &host.in_command_cage()?);
    host.tidy()?;
    wrong += judge("Claude Code's cage", In::Claude, &host.in_claude_cage()?);
    let visits = host.visits();
    println!("# {visits} visits to servers outside, {wrong} attempts that ended otherwise than they must");
    if fs::read_to_string(host.at("home/project/main.rs"))? != "secret"
        || Path::new("/tmp/hostile-was-here").exists()
    {
        return Err("something outside the scratch was changed".into());
    }
    if host.victim.try_wait()?.is_some() {
        return Err("the victim was killed".into());
    }
    Ok(wrong + visits)
}

pub(crate) fn both_cages() -> ExitCode {
    match attack_both() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hostile could not make its attacks: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "measure-single-walls"))]
pub(crate) fn single_walls() -> ExitCode {
    eprintln!("walls can be left out only by a build with `--features measure-single-walls`");
    ExitCode::from(2)
}

/// What gets through when one wall alone is missing, as a table in Markdown.
#[cfg(feature = "measure-single-walls")]
pub(crate) fn single_walls() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measuring single walls: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "measure-single-walls")]
fn measure() -> Failable<()> {
    println!("| attempt | cage | all walls | without mounts | without Landlock | without seccomp |");
    println!("|---|---|---|---|---|---|");
    for (place, cage) in [(In::Command, "command"), (In::Claude, "Claude Code")] {
        let columns = ["", "mounts", "landlock", "seccomp"].map(|without| answers_without(place, without));
        for attack in expected_in(place).filter(|attack| !attack.errors.is_empty()) {
            let cells: Vec<String> = columns
                .iter()
                .map(|answers| match answers {
                    Ok(answers) => match answers.get(attack.name) {
                        Some(0) => "**through**".to_owned(),
                        Some(errno) => name_of(*errno),
                        None => "not made".to_owned(),
                    },
                    Err(error) => format!("refused: {error}"),
                })
                .collect();
            println!("| {} | {cage} | {} |", attack.name, cells.join(" | "));
        }
    }
    Ok(())
}

/// Runs the attacks with one wall left out.
#[cfg(feature = "measure-single-walls")]
fn answers_without(place: In, wall: &str) -> Failable<Answers> {
    let host = Host::build()?;
    sandbox_profiles::launch::leave_out(wall);
    match place {
        In::Command | In::Both => host.in_command_cage(),
        In::Claude => host.in_claude_cage(),
    }
}
