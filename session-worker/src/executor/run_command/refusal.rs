//! What is refused by name: the program, every name on the way to it, and what a wrapper would start.
//!
//! The walls don't rest on this list: it tells early and clearly what would fail or has no place in a session. What a
//! shell starts is not looked at, the cage holds it.

use std::path::Path;

use protocol::failure::ToolErrorCode;

use crate::executor::outcome::ToolFailure;

/// Wrappers in wrappers that are looked through.
const DEPTH: usize = 16;

const PRIVILEGES: &[&str] = &["sudo", "sudoedit", "su", "doas", "pkexec", "run0", "runuser"];
const DELETERS: &[&str] = &["rm", "rmdir", "mv", "shred", "dd", "mkfs", "unlink", "srm", "wipefs"];
const MACHINE: &[&str] = &[
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "init",
    "telinit",
    "launchctl",
    "systemctl",
    "service",
    "kill",
    "killall",
    "pkill",
    "skill",
    "xkill",
];
/// Other models' clients: ChatGPT is the only brain.
pub(super) const MODELS: &[&str] = &[
    "claude",
    "codex",
    "gemini",
    "deepseek",
    "ollama",
    "aider",
    "goose",
    "opencode",
    "copilot",
    "cursor-agent",
    "qwen",
    "crush",
    "llm",
    "sgpt",
    "chatgpt",
    "grok",
    "kimi",
    "droid",
    "amp",
    "lms",
];

/// What a wrapper takes before the command that it starts.
struct Wrapper {
    name: &'static str,
    /// Options whose value is an argument of its own.
    valued: &'static [&'static str],
    /// Arguments before the command that are not options.
    operands: usize,
}

const fn wrapper(name: &'static str, valued: &'static [&'static str], operands: usize) -> Wrapper {
    Wrapper { name, valued, operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("env", &["-u", "--unset", "-C", "--chdir", "-P"], 0),
    wrapper("nice", &["-n", "--adjustment"], 0),
    wrapper("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    wrapper("timeout", &["-s", "--signal", "-k", "--kill-after"], 1),
    wrapper("gtimeout", &["-s", "--signal", "-k", "--kill-after"], 1),
    wrapper(
        "xargs",
        &[
            "-a",
            "--arg-file",
            "-d",
            "--delimiter",
            "-E",
            "-I",
            "-J",
            "-L",
            "-n",
            "--max-args",
            "-P",
            "--max-procs",
            "-R",
            "-s",
            "-S",
        ],
        0,
    ),
    wrapper("nohup", &[], 0),
    wrapper("setsid", &[], 0),
    wrapper("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    wrapper("time", &["-f", "--format", "-o", "--output"], 0),
    wrapper("chrt", &["-T", "-P", "-D"], 1),
    wrapper("taskset", &[], 1),
    wrapper("busybox", &[], 0),
    wrapper("toybox", &[], 0),
    wrapper("command", &[], 0),
    wrapper("exec", &["-a"], 0),
    wrapper("caffeinate", &["-t", "-w"], 0),
    wrapper("arch", &[], 0),
    wrapper("unshare", &[], 0),
    wrapper("watch", &["-n", "--interval"], 0),
    wrapper("strace", &["-e", "-o", "-p", "-s", "-u", "-E"], 0),
    wrapper("parallel", &["-j", "--jobs"], 0),
    wrapper("flock", &["-w", "--wait", "--timeout", "-E", "--conflict-exit-code"], 1),
    wrapper("setpriv", SETPRIV, 0),
    wrapper("chroot", &[], 1),
    wrapper("nsenter", &["-t", "--target", "-S", "--setuid", "-G", "--setgid"], 0),
    wrapper("prlimit", &["-p", "--pid", "-o", "--output"], 0),
    wrapper("setarch", &[], 1),
    wrapper("linux32", &[], 0),
    wrapper("linux64", &[], 0),
    wrapper("ltrace", &["-e", "-o", "-p", "-s", "-u", "-n", "-a", "-l", "-x", "-F", "-A", "-w"], 0),
    wrapper("perf", &["-e", "-o", "-p", "-F", "-c"], 1),
    wrapper("valgrind", &[], 0),
    wrapper("faketime", &["-p", "-f"], 1),
    wrapper("unbuffer", &[], 0),
    wrapper("chronic", &[], 0),
    wrapper("ld-linux-x86-64.so.2", LOADER, 0),
    wrapper("ld-linux-aarch64.so.1", LOADER, 0),
    wrapper("ld-musl-x86_64.so.1", LOADER, 0),
    wrapper("ld-musl-aarch64.so.1", LOADER, 0),
];

const SETPRIV: &[&str] = &[
    "--reuid",
    "--regid",
    "--ruid",
    "--euid",
    "--rgid",
    "--egid",
    "--groups",
    "--inh-caps",
    "--ambient-caps",
    "--bounding-set",
    "--securebits",
    "--pdeathsig",
    "--selinux-label",
    "--apparmor-profile",
];

/// The system's own loader starts a program that is named to it like any wrapper.
const LOADER: &[&str] = &["--library-path", "--inhibit-rpath", "--audit", "--preload", "--argv0"];

/// Judges a command by its name, by all names that `hops` says lead on from it, by its arguments, and by what it wraps.
/// Whether a program of that name is there makes no difference.
///
/// # Errors
/// `refused_command`, with what was refused and why.
pub(super) fn judge(argv: &[String], hops: impl Fn(&str) -> Vec<String>) -> Result<(), ToolFailure> {
    let mut rest: Vec<String> = argv.to_vec();
    for _ in 0..DEPTH {
        let Some((first, arguments)) = rest.split_first() else { return Ok(()) };
        let mut names = vec![base(first)];
        names.extend(hops(first).iter().map(|name| base(name)));
        for name in &names {
            judge_name(name)?;
            judge_arguments(name, arguments)?;
        }
        let Some(wrapper) = WRAPPERS.iter().find(|wrapper| names.iter().any(|name| name == wrapper.name))
        else {
            return Ok(());
        };
        rest = inner(wrapper, arguments);
    }
    Err(refused("it wraps more than 16 commands in each other, which is no command"))
}

/// The command that a wrapper starts.
fn inner(wrapper: &Wrapper, arguments: &[String]) -> Vec<String> {
    let mut operands = wrapper.operands;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if wrapper.name == "env"
            && let Some(text) = split_string(argument, &mut rest)
        {
            let words = text.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned());
            return words.chain(rest.cloned()).collect();
        }
        if argument == "--" {
            continue;
        }
        if argument.starts_with('-') && argument.len() > 1 {
            if wrapper.valued.contains(&argument.as_str()) {
                rest.next();
            }
        } else if wrapper.name == "env" && argument.contains('=') {
            // A variable of the environment.
        } else if operands > 0 {
            operands -= 1;
        } else {
            return std::iter::once(argument).chain(rest).cloned().collect();
        }
    }
    Vec::new()
}

/// The text of `env -S TEXT`, `-STEXT` or `--split-string=TEXT`.
fn split_string(argument: &str, rest: &mut std::slice::Iter<'_, String>) -> Option<String> {
    if argument == "-S" || argument == "--split-string" {
        return rest.next().cloned();
    }
    argument.strip_prefix("--split-string=").or_else(|| argument.strip_prefix("-S")).map(str::to_owned)
}

fn base(name: &str) -> String {
    let name =
        Path::new(name).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // Some file systems don't tell `RM` from `rm`.
    name.to_lowercase()
}

fn judge_name(name: &str) -> Result<(), ToolFailure> {
    let name = base(name);
    let is = |list: &[&str]| list.contains(&name.as_str());
    let why = if is(PRIVILEGES) {
        "other users' rights don't exist in the cage"
    } else if is(DELETERS) || name.starts_with("mkfs.") {
        "nothing is deleted, moved or overwritten by a command; Write and Edit change files, the owner deletes"
    } else if is(MACHINE) {
        "the machine and other processes are out of reach; a command's own processes end with it"
    } else if is(MODELS) {
        "ChatGPT is the only model of this session"
    } else {
        return Ok(());
    };
    Err(refused(&format!("{name} is on the refusal list: {why}")))
}

fn judge_arguments(name: &str, arguments: &[String]) -> Result<(), ToolFailure> {
    match base(name).as_str() {
        "find" | "gfind" | "bfs" => {
            let acts = |argument: &&String| {
                ["-delete", "-exec", "-execdir", "-ok", "-okdir", "-fls"].contains(&argument.as_str())
                    || argument.starts_with("-fprint")
            };
            arguments.iter().find(acts).map_or(Ok(()), |argument| {
                Err(refused(&format!(
                    "find {argument} acts on what it finds; list first, then run a command on it"
                )))
            })
        }
        "rg" | "ripgrep" => {
            let runs = |argument: &&String| {
                let option = argument.split('=').next().unwrap_or_default();
                option == "--pre" || option == "--hostname-bin"
            };
            let before_end = arguments.iter().take_while(|argument| *argument != "--");
            before_end.into_iter().find(runs).map_or(Ok(()), |argument| {
                Err(refused(&format!("rg {argument} runs a program for every file; search without it")))
            })
        }
        _ => Ok(()),
    }
}

fn refused(why: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorCode::RefusedCommand, format!("running a command: {why}; nothing was run"))
}
