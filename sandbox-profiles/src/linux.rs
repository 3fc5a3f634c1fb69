//! What only Linux can answer.

mod files;

pub(crate) use files::{is_process_information, path_of};
