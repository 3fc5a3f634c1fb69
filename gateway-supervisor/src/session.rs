//! Sessions: what they remember, what they decide, and how they are shown.

pub(crate) mod actor;
pub(crate) mod call;
pub(crate) mod continue_;
pub(crate) mod converge;
pub(crate) mod decision;
pub(crate) mod ground;
pub(crate) mod keys;
pub(crate) mod recover;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod stop;
pub(crate) mod summary;
pub(crate) mod undo;
pub mod view;
pub(crate) mod wait;
