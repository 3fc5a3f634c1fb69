//! Someone who runs many commands that don't want to end, and is killed in the middle of it.

use sandbox_profiles::{
    AbsolutePath, SandboxSpec,
    launch::{CommandCages, Helper, Program, spawn_command},
};
use std::{error::Error, path::Path};

/// Each one forks, starts a daemon of its own session, ignores every signal that can be ignored, and never ends.
const STUBBORN: &str = "trap '' TERM INT HUP QUIT; (setsid sh -c 'while :; do sleep 0.01; done' &); \
                        (setsid sleep 1000 &); while :; do sleep 0.01; done";

/// Commands that run at the same time.
const AT_ONCE: usize = 8;

/// Runs them until it is killed. Says `ready` when all have started once.
pub(crate) fn run(scratch: &Path) -> Result<(), Box<dyn Error>> {
    let scratch = AbsolutePath::new(scratch)?;
    let spec = SandboxSpec::command(scratch.clone(), Vec::new());
    let program = Program {
        path: AbsolutePath::new("/bin/sh")?,
        arguments: vec!["sh".into(), "-c".into(), STUBBORN.into(), scratch.as_os_str().to_owned()],
        directory: scratch,
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
    };
    let cages = CommandCages::open(&Helper::this_program()?)?;
    let mut running = Vec::new();
    loop {
        running.push(spawn_command(&cages, &spec, &program)?);
        if running.len() == AT_ONCE {
            println!("ready");
            let oldest = running.remove(0);
            oldest.kill_tree()?;
            let _ = oldest.wait()?;
        }
    }
}
