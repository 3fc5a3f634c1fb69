//! An attacker behind the walls, and the people it attacks.
//!
//! `hostile` builds a home with secrets, servers and a victim, starts itself in a command's cage and in Claude Code's,
//! tries every escape by name, prints a table, and exits 1 unless each one failed with the error that shows a wall,
//! the harmless part worked, and no server was reached. `hostile single` prints what each single wall lets through
//! when it alone is missing (a build with `--features measure-single-walls`). `hostile work FOLDER` runs stubborn
//! commands until it is killed.
#![expect(clippy::disallowed_methods, reason = "the fences hold what ships; a test goes where it must")]
#![cfg_attr(
    target_os = "linux",
    expect(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "a program for people that reports on its terminal"
    )
)]

#[cfg(target_os = "linux")]
#[path = "hostile/attacks.rs"]
mod attacks;
#[cfg(target_os = "linux")]
#[path = "hostile/host.rs"]
mod host;
#[cfg(target_os = "linux")]
#[path = "hostile/reach.rs"]
mod reach;
#[cfg(target_os = "linux")]
#[path = "hostile/sys.rs"]
mod sys;
#[cfg(target_os = "linux")]
#[path = "hostile/work.rs"]
mod work;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    sandbox_profiles::launch::helper_main_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("attack") => attack(&arguments),
        Some("work") => match work::run(std::path::Path::new(arguments.get(1).map_or("", String::as_str))) {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("running commands: {error}");
                std::process::ExitCode::FAILURE
            }
        },
        Some("single") => host::single_walls(),
        None => host::both_cages(),
        Some(other) => {
            eprintln!("hostile knows `single` or nothing, not {other}");
            std::process::ExitCode::from(2)
        }
    }
}

/// Inside: waits for a line, makes every attempt, and says how each ended: a name, a tab, an error number or 0.
#[cfg(target_os = "linux")]
fn attack(arguments: &[String]) -> std::process::ExitCode {
    let said = |name: &str| {
        let found = arguments.iter().find_map(|argument| argument.strip_prefix(name));
        found.and_then(|rest| rest.strip_prefix('=')).unwrap_or_default().to_owned()
    };
    let number = |name: &str| said(name).parse().unwrap_or(0);
    let targets = attacks::Targets {
        home: said("home").into(),
        scratch: said("scratch").into(),
        victim: said("victim").parse().unwrap_or(0),
        tcp: number("tcp"),
        udp: number("udp"),
        abstract_name: said("abstract"),
        port: number("port"),
    };
    let here = if said("cage") == "claude" { attacks::In::Claude } else { attacks::In::Command };
    println!("ready");
    if let Err(error) = std::io::stdin().read_line(&mut String::new()) {
        eprintln!("hearing when to start: {error}");
    }
    for attack in attacks::all().filter(|attack| attack.place == here || attack.place == attacks::In::Both) {
        let errno = (attack.make)(&targets).map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0);
        println!("{}\t{errno}", attack.name);
    }
    std::process::ExitCode::SUCCESS
}

#[cfg(not(target_os = "linux"))]
fn main() {
    sandbox_profiles::launch::helper_main_if_asked();
}
