//! The door: six tools over MCP.

pub mod input;
pub mod sessions;
