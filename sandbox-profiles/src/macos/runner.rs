//! The helper process of one cage: starts `sandbox-exec`, follows the tree of processes below it, and ends that tree
//! when the program ends, when the caller asks, or when the caller is gone.
//!
//! Invariant: one thread; the caller's end of the socket closes only after the tree is gone.
#![expect(clippy::disallowed_methods, reason = "the runner ends the program that it started")]

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, setrlimit},
        signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask},
        stat::{Mode, umask},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, chdir, dup2_stdin, execve, setsid},
};
use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    time::Duration,
};

use super::{
    launch::receive_descriptor,
    sys::{self, Event, Forked, Queue},
    tree::Tree,
    wire::{self, Order, Report},
};
use crate::launch::Request;

/// Between looks at a tree in which nothing was reported; what a missed event would cost.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Is the runner until its tree is gone. The socket to the caller is standard input.
pub(super) fn run() -> i32 {
    let Ok(caller) = take_socket() else { return 1 };
    let ended = live(&caller);
    let report = match ended {
        Ok(report) => report,
        Err(error) => Some(Report::Failed {
            step: "running a cage".into(),
            errno: error.raw_os_error().unwrap_or(libc::EINVAL),
        }),
    };
    match report.map(|report| wire::write(&caller, &report)) {
        None | Some(Ok(())) => 0,
        Some(Err(_)) => 1, // the caller is gone
    }
}

fn take_socket() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

/// Runs one cage; how the program ended, unless the caller ended it.
fn live(caller: &UnixStream) -> io::Result<Option<Report>> {
    setsid()?;
    let stdin = receive_descriptor(caller)?;
    let Some(order) = wire::read::<Order>(caller)? else { return Ok(None) };
    let queue = Queue::new()?;
    let program = match sys::fork()? {
        Forked::Child => become_program(&order, &stdin, caller),
        Forked::Parent(program) => program,
    };
    drop(stdin);
    // The streams are the program's: nobody may wait for an end that this process holds open.
    let nowhere = File::options().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&nowhere)?;
    nix::unistd::dup2_stderr(&nowhere)?;
    queue.watch_process(program.as_raw())?;
    queue.watch_readable(caller)?;
    let mut tree = Tree::of(program);
    wire::write(caller, &Report::Running(program.as_raw()))?;
    let ended = watch(caller, &queue, program, &mut tree);
    tree.end(&queue)?;
    ended
}

fn watch(caller: &UnixStream, queue: &Queue, program: Pid, tree: &mut Tree) -> io::Result<Option<Report>> {
    loop {
        let event = queue.next(LOOK_EVERY)?;
        tree.look(queue)?;
        if event == Some(Event::Readable) {
            let mut byte = [0];
            if (&*caller).read(&mut byte)? == 0 {
                return Ok(None);
            }
            obey(byte[0], program, tree)?;
        }
        match waitpid(program, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::EINTR) | Ok(WaitStatus::StillAlive) => {}
            Ok(WaitStatus::Exited(_, code)) => return Ok(Some(Report::Exited(code))),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Some(Report::Signaled(signal as i32))),
            other => {
                return Err(other.err().map_or_else(|| io::Error::other("an unknown end"), io::Error::from));
            }
        }
    }
}

/// The byte of a request on the wire.
pub(super) fn byte_of(request: Request) -> u8 {
    match request {
        Request::Terminate => b't',
        Request::Interrupt => b'i',
        Request::Pause => b'p',
        Request::Resume => b'r',
    }
}

fn obey(byte: u8, program: Pid, tree: &Tree) -> io::Result<()> {
    let sent = match byte {
        b't' => kill(program, Signal::SIGTERM),
        b'i' => kill(program, Signal::SIGINT),
        b'p' => {
            tree.signal(Signal::SIGSTOP);
            Ok(())
        }
        b'r' => {
            tree.signal(Signal::SIGCONT);
            Ok(())
        }
        _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
    };
    match sent {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn become_program(order: &Order, stdin: &OwnedFd, caller: &UnixStream) -> ! {
    let error = match execute(order, stdin) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
    // A caller that is gone can't be told.
    let _ = wire::write(caller, &Report::Failed { step: "starting sandbox-exec".into(), errno });
    sys::exit_now(1)
}

fn execute(order: &Order, stdin: &OwnedFd) -> io::Result<std::convert::Infallible> {
    let text =
        |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    let arguments =
        order.arguments.iter().map(|argument| text(argument)).collect::<io::Result<Vec<CString>>>()?;
    let pair = |(name, value): &(OsString, OsString)| {
        let mut pair = name.clone();
        pair.push("=");
        pair.push(value);
        text(&pair)
    };
    let environment = order.environment.iter().map(pair).collect::<io::Result<Vec<CString>>>()?;
    let program = arguments.first().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    setsid()?;
    sys::reset_signals();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    dup2_stdin(stdin)?;
    umask(Mode::from_bits_truncate(order.umask));
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    if let Some(bytes) = order.file_bytes {
        setrlimit(Resource::RLIMIT_FSIZE, bytes, bytes)?;
    }
    chdir(order.directory.as_os_str())?;
    close_on_exec()?;
    Ok(execve(program, &arguments, &environment)?)
}

/// Lets nothing but the three standard streams survive the exec; the socket must last until it has succeeded.
fn close_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/dev/fd")?.flatten() {
        let number = entry.file_name().to_string_lossy().parse::<i32>().unwrap_or(0);
        if number > 2 {
            sys::set_close_on_exec(number);
        }
    }
    Ok(())
}
