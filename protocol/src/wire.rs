//! The wire between supervisor and worker, and between `gatewayctl` and supervisor.
//!
//! A connection starts with a hello and a proof ([`hello`]), then carries frames ([`frame`]) of messages ([`codec`]).
//! Invariant: messages are append-only: a variant or a field is only ever added at the end of an enum, and golden bytes
//! in the tests hold every variant that was ever released.

pub mod codec;
pub mod control;
pub mod frame;
#[cfg(test)]
mod golden;
pub mod ground;
pub mod hello;
pub mod launch;
pub mod outbox;
pub mod to_supervisor;
pub mod to_worker;
pub mod undo;
