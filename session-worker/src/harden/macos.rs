//! What macOS offers: nothing beyond the steps that every system has. Other processes of the user can't read this one's
//! memory without the debugger's entitlement, and a descendant that leaves its process group is found by nobody.

use std::io;

/// Nothing more to do.
pub(super) fn harden() -> io::Result<()> {
    Ok(())
}
