//! Which loader a program asks for.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::{ffi::OsStringExt, fs::FileExt},
    path::{Path, PathBuf},
};

/// The loader's name in a program's header; longer ones don't exist.
const LONGEST_NAME: u64 = 4_096;
const MOST_HEADERS: u16 = 128;
const INTERPRETER: u32 = 3;

/// The loader of a 64-bit program of this machine, or `None` where it needs none (static, or no ELF at all).
pub(crate) fn interpreter(program: &Path) -> io::Result<Option<PathBuf>> {
    let mut file = File::open(program)?;
    let mut header = [0_u8; 64];
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (start, size, count) = (long(&header, 32), short(&header, 54), short(&header, 56));
    for index in 0..count.min(MOST_HEADERS) {
        let mut entry = [0_u8; 56];
        file.read_exact_at(&mut entry, start.saturating_add(u64::from(index) * u64::from(size)))?;
        if u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) == INTERPRETER {
            let length = long(&entry, 32).min(LONGEST_NAME);
            let mut name = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            file.read_exact_at(&mut name, long(&entry, 8))?;
            name.retain(|byte| *byte != 0);
            return Ok(Some(PathBuf::from(std::ffi::OsString::from_vec(name))));
        }
    }
    Ok(None)
}

fn short(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|part| part.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}
