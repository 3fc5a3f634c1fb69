//! The owner's program: look at the gateway and its sessions, stop them, and find out what is wrong.

use std::process::ExitCode;

fn main() -> ExitCode {
    gateway_supervisor::ctl::main()
}
