//! People.
fn main() {}
