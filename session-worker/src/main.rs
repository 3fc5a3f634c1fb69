//! The hands.
fn main() {}
