//! Names in a session's private folder that the worker writes and the supervisor clears up.

/// The folder of the contents that files had before and after each change.
pub const VERSIONS: &str = "blobs";

/// The ending of a file that is being written; it gets its name once it is whole. Where its writer is gone it is of no use.
pub const UNFINISHED: &str = ".part";
