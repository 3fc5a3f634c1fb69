//! The hands: one process per session that owns Claude Code, the bridge it takes for its model, and the tool executor.

mod executor;
mod link;
mod server;

fn main() {}
