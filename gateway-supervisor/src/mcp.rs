//! The door: six tools over MCP.

mod arguments;
mod body;
mod call;
pub mod config;
pub mod describe;
mod envelope;
pub mod failure;
mod front;
mod gate;
pub mod input;
mod numbers;
mod refusal;
mod result_schema;
pub mod server;
pub mod sessions;
pub mod token;
pub mod tool;
mod transport;

#[cfg(test)]
mod tests;
