//! Process identity from `/proc`.

use std::{fs, io};

pub(super) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

pub(super) fn started(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "/proc/<pid>/stat has another form");
    // The name in parentheses may itself hold spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')').ok_or_else(malformed)?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    match fields.first() {
        // A zombie has ended; only its parent has not asked yet.
        Some(&"Z" | &"X") => Err(io::Error::from(io::ErrorKind::NotFound)),
        Some(_) => fields.get(19).and_then(|ticks| ticks.parse().ok()).ok_or_else(malformed),
        None => Err(malformed()),
    }
}
