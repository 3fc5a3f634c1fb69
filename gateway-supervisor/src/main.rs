//! The memory.
fn main() {}
