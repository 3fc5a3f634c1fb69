//! Workers, seen from the supervisor: where they listen, how they are started, reached, and ended.

pub(crate) mod carrier;
pub(crate) mod ground;
pub(crate) mod link;
pub(crate) mod orphans;
pub(crate) mod place;
pub(crate) mod spawn;
pub(crate) mod undo;
