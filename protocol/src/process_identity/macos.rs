//! Process identity from libproc and sysctl.

mod sys;

use std::io;

pub(super) fn boot() -> io::Result<String> {
    sys::boot_session()
}

pub(super) fn started(pid: u32) -> io::Result<u64> {
    let info = sys::bsd_info(pid)?;
    if info.pbi_status == libc::SZOMB {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    Ok(info.pbi_start_tvsec.saturating_mul(1_000_000).saturating_add(info.pbi_start_tvusec))
}
