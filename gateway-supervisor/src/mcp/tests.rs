//! The door over real HTTP, with a scripted stand-in for the sessions behind it and a raw client that opens a connection per call.

mod drain;
mod malformed;
mod rig;
mod surface;
mod waiting;

pub(crate) use rig::view;
