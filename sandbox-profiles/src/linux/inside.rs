//! The process that becomes the program: it puts the last walls around itself, then executes.
//!
//! Invariant: the program inherits its three standard streams and nothing else.

use nix::{
    libc,
    sys::{
        resource::{Resource, setrlimit},
        signal::{SigSet, SigmaskHow, sigprocmask},
        stat::{Mode, umask},
    },
    unistd::{chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, setsid},
};
use std::{
    ffi::{CString, OsStr},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

use super::{
    landlock::{self, Found},
    seccomp::Filters,
    step::{Named, Step},
    sys,
    wire::{self, Order, Report, Walls},
};
use crate::{
    error::Feature,
    launch::Program,
    spec::{Readable, SandboxSpec},
};

/// What this process was given.
pub(super) struct Streams {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Everything that `execve` reads, made before the walls stand.
struct Image {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

/// Closes this process in and turns it into the program. Never returns.
pub(super) fn become_program(order: &Order, streams: &Streams, found: &Found, caller: &OwnedFd) -> ! {
    let answer = match prepare(order, streams, found) {
        Err(failed) => Report::from(failed),
        Ok(image) => match wire::report(caller.as_fd(), &Report::Walled) {
            Err(_) => sys::exit_now(1), // the caller is gone
            Ok(()) => match image {
                None => sys::exit_now(0),
                Some(image) => {
                    let error = execve(&image.path, &image.arguments, &image.environment).err();
                    Report::NotExecuted { errno: error.map_or(0, |error| error as i32) }
                }
            },
        },
    };
    // A caller that is gone can't be told.
    let _ = wire::report(caller.as_fd(), &answer);
    sys::exit_now(1)
}

fn prepare(order: &Order, streams: &Streams, found: &Found) -> Step<Option<Image>> {
    setsid().step(|| "starting a process group".into())?;
    sys::reset_signals();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
        .step(|| "clearing the signal mask".into())?;
    dup2_stdin(&streams.stdin).step(|| "connecting standard input".into())?;
    dup2_stdout(&streams.stdout).step(|| "connecting standard output".into())?;
    dup2_stderr(&streams.stderr).step(|| "connecting standard error".into())?;
    sys::close_on_exec_from(3).step(|| "closing descriptors".into())?;
    // A session's home is private; a command's files get the modes that builds and their tests expect.
    umask(match order.spec.readable {
        Readable::Everything => Mode::from_bits_truncate(0o022),
        Readable::Only(_) => Mode::from_bits_truncate(0o077),
    });
    limit(&order.spec).step(|| "setting resource limits".into())?;
    let image = order.program.as_ref().map(image).transpose()?;
    if let Some(program) = &order.program {
        chdir(program.directory.as_path())
            .step(|| format!("entering the directory {}", program.directory.display()))?;
    }
    wall_in(&order.spec, found, order.walls)?;
    Ok(image)
}

fn limit(spec: &SandboxSpec) -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    if let Some(bytes) = spec.limits.file_bytes {
        setrlimit(Resource::RLIMIT_FSIZE, bytes, bytes)?;
    }
    Ok(())
}

fn wall_in(spec: &SandboxSpec, found: &Found, walls: Walls) -> Step<()> {
    let filters = Filters::of(spec).step(|| "compiling seccomp filters".into())?;
    sys::drop_all_capabilities().step(|| "dropping capabilities".into())?;
    nix::sys::prctl::set_no_new_privs().step(|| "giving up new privileges".into())?;
    if walls.landlock {
        landlock::restrict(spec, found)
            .needs(Feature::Landlock, || "restricting itself with Landlock".into())?;
    }
    if walls.seccomp {
        filters.install().needs(Feature::Seccomp, || "installing seccomp filters".into())?;
    }
    Ok(())
}

fn image(program: &Program) -> Step<Image> {
    let text = |text: &OsStr| {
        CString::new(text.as_bytes())
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
            .step(|| "reading the program's arguments, one of which holds a NUL byte".to_owned())
    };
    let mut environment = Vec::with_capacity(program.environment.len());
    for (name, value) in &program.environment {
        let mut pair = name.clone();
        pair.push("=");
        pair.push(value);
        environment.push(text(&pair)?);
    }
    Ok(Image {
        path: text(program.path.as_os_str())?,
        arguments: program.arguments.iter().map(|argument| text(argument)).collect::<Step<_>>()?,
        environment,
    })
}

/// The program file and its loader, as they really are.
pub(super) fn executables(program: &Program) -> io::Result<Vec<PathBuf>> {
    let real = program.path.canonicalize()?;
    let loader = super::elf::interpreter(&real)?;
    Ok([Some(real), loader].into_iter().flatten().collect())
}
