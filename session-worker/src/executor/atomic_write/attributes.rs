//! What a file keeps when its content is replaced: owner, mode, access control lists, extended attributes.
//!
//! Invariant: what could not be kept is said; nothing gains rights: set-id bits and file capabilities go, as they do
//! when a file is written in place.

use std::{
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
};

use nix::{
    sys::stat::Mode,
    unistd::{Gid, Uid},
};

/// Permissions and sticky bit.
const KEPT_MODE: u32 = 0o1777;
const SET_ID: u32 = 0o6000;

/// Gives `to` what `from` has; each note says what is not as it was.
pub(super) fn keep(from: (&File, &Metadata), to: &File) -> std::io::Result<Vec<String>> {
    let mut notes = Vec::new();
    let (file, old) = from;
    let new = to.metadata()?;
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        keep_owner(old, to, &mut notes);
    }
    keep_extended(file, to, &mut notes);
    if old.mode() & SET_ID != 0 {
        notes.push("its set-user-id or set-group-id bit was cleared, as on any write".to_owned());
    }
    // Last: setting an owner or a list changes the mode.
    nix::sys::stat::fchmod(to, mode_bits(old.mode() & KEPT_MODE))?;
    Ok(notes)
}

pub(super) fn mode_bits(mode: u32) -> Mode {
    Mode::from_bits_truncate(libc::mode_t::try_from(mode & 0o7777).unwrap_or_default())
}

fn keep_owner(old: &Metadata, to: &File, notes: &mut Vec<String>) {
    let (owner, group) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
    if nix::unistd::fchown(to, Some(owner), Some(group)).is_ok() {
        return;
    }
    if nix::unistd::fchown(to, None, Some(group)).is_err() {
        notes.push(format!("its group {group} could not be kept: the system denies it"));
    }
    if to.metadata().map(|new| new.uid()).ok() != Some(old.uid()) {
        notes.push(format!("its owner {owner} could not be kept: the system denies it"));
    }
}

/// Attributes that speak of the old content: the kernel itself drops them on a write.
#[cfg(target_os = "linux")]
const OF_THE_CONTENT: [&[u8]; 3] = [b"security.capability", b"security.ima", b"security.evm"];

#[cfg(target_os = "linux")]
fn keep_extended(from: &File, to: &File, notes: &mut Vec<String>) {
    use super::sys::xattr;

    let old = match xattr::names(from) {
        Ok(names) => names,
        // The file system has none.
        Err(error) if error.raw_os_error() == Some(libc::ENOTSUP) => return,
        Err(error) => {
            notes.push(format!("its extended attributes could not be read: {error}"));
            return;
        }
    };
    for name in &old {
        if OF_THE_CONTENT.contains(&name.to_bytes()) {
            notes.push(format!("its attribute {name:?} was for the old content and was dropped"));
            continue;
        }
        let value = xattr::get(from, name);
        if value.as_ref().ok().is_some_and(|value| xattr::get(to, name).is_ok_and(|there| there == *value)) {
            continue;
        }
        if let Err(error) = value.and_then(|value| xattr::set(to, name, &value)) {
            notes.push(format!("its attribute {name:?} could not be kept: {error}"));
        }
    }
    // A directory can hand lists down to what is made in it, which the old file may not have had.
    for name in xattr::names(to).unwrap_or_default() {
        if name.to_bytes() == b"system.posix_acl_access"
            && !old.contains(&name)
            && xattr::remove(to, &name).is_err()
        {
            notes.push("it has an access list now that it did not have, from its directory".to_owned());
        }
    }
}

#[cfg(target_os = "macos")]
fn keep_extended(from: &File, to: &File, notes: &mut Vec<String>) {
    if let Err(error) = super::sys::copy_acl_and_xattrs(from, to) {
        notes.push(format!("its access list and extended attributes could not be kept: {error}"));
    }
}

/// Whether the directory gives what is made in it an access list of its own, which then decides the mode.
pub(super) fn hands_down_a_list(directory: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        super::sys::xattr::get(directory, c"system.posix_acl_default").is_ok()
    }
    #[cfg(target_os = "macos")]
    {
        // There an inherited list stands beside the mode and does not change it.
        let _ = directory;
        false
    }
}
