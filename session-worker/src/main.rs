//! The hands.

mod executor;

fn main() {}
