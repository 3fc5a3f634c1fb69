//! The supervisor: everything that outlives one call and one session, put together.

pub(crate) mod clear;
pub mod gateway;
pub(crate) mod house;
mod instructions;
mod owner;
pub mod serve;
mod signals;
mod six;
mod undo;
mod worktrees;

#[cfg(test)]
mod tests;
