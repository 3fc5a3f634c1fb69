//! The hands: one process per session that owns Claude Code, the bridge it takes for its model, and the tool executor.

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the worker's loop does not open the executor's endpoint yet")
)]
mod executor;
mod link;
mod server;

fn main() {}
