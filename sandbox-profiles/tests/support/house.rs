//! A home with secrets, a project and a scratch, in a folder of its own that is removed at the end.

use sandbox_profiles::{
    AbsolutePath, Protected, ProtectedSources, SandboxSpec,
    launch::{Caged, CommandCages, Ending, Helper, Program, spawn_command},
};
use std::{
    ffi::OsString,
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};

/// The example program, which is also a helper. Cargo builds examples together with tests.
pub(crate) fn hostile() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap().join("examples/hostile");
    assert!(
        built.exists(),
        "{} is missing: build it with `cargo build -p sandbox-profiles --examples`",
        built.display()
    );
    built
}

pub(crate) fn helper() -> Helper {
    Helper::at(hostile())
}

pub(crate) fn path(path: impl Into<PathBuf>) -> AbsolutePath {
    AbsolutePath::new(path).unwrap()
}

pub(crate) struct House {
    folder: tempfile::TempDir,
}

impl House {
    pub(crate) fn build() -> Self {
        let house = House { folder: tempfile::Builder::new().prefix("house").tempdir().unwrap() };
        fs::set_permissions(house.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for folder in ["home/.ssh", "home/project", "home/state", "scratch"] {
            fs::create_dir_all(house.at(folder)).unwrap();
        }
        for (file, text) in [
            ("home/.ssh/id", "secret"),
            ("home/.netrc", "secret"),
            ("home/state/token", "secret"),
            ("home/project/main.rs", "open"),
        ] {
            fs::write(house.at(file), text).unwrap();
        }
        house
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn protected(&self) -> Vec<AbsolutePath> {
        let sources = ProtectedSources {
            homes: vec![self.at("home")],
            own: vec![self.at("home/state")],
            added: Vec::new(),
            ..ProtectedSources::default()
        };
        Protected::gather(&sources).paths()
    }

    pub(crate) fn spec(&self) -> SandboxSpec {
        SandboxSpec::command(path(self.at("scratch")), self.protected())
    }

    pub(crate) fn program(&self, argv: &[&str]) -> Program {
        Program {
            path: path(argv[0]),
            arguments: argv.iter().map(OsString::from).collect(),
            directory: path(self.at("home/project")),
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        }
    }

    pub(crate) fn shell(&self, script: &str) -> Program {
        self.program(&["/bin/sh", "-c", script])
    }
}

/// What a command left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(cages: &CommandCages, spec: &SandboxSpec, program: &Program) -> Outcome {
    let caged = spawn_command(cages, spec, program).unwrap();
    finish(caged)
}

pub(crate) fn finish(mut caged: Caged) -> Outcome {
    drop(caged.stdin.take());
    let mut stderr = caged.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        text
    });
    let mut output = Vec::new();
    caged.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    let ending = caged.wait_until(Instant::now() + Duration::from_secs(30)).unwrap().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome { ending, stdout: text(output), stderr: text(errors.join().unwrap()) }
}
