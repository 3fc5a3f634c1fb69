//! What an interrupted action did is found out from the record and from what is there: decided purely, observed apart.

pub(crate) mod observe;
pub(crate) mod resolve;
