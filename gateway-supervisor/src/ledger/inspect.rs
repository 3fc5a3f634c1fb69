//! A look at a session's journal from outside the supervisor: nothing is locked, cut or mended, and a supervisor that
//! writes meanwhile is not disturbed.

use std::{
    fs::{self, File},
    io::BufReader,
    path::Path,
};

use protocol::id::SessionId;

use super::{
    LedgerError,
    journal::{
        self,
        reader::{Reader, Stop},
    },
    record::Record,
};

/// What a journal holds.
#[derive(Debug)]
pub struct Inspected {
    /// Its whole records, in order.
    pub records: Vec<Record>,
    /// Whether it ends in the middle of a record: one that is being written, or was not finished in a crash.
    pub unfinished: bool,
    /// Where the last whole record ends, and the file.
    pub bytes: (u64, u64),
}

/// Every session that has a folder, in no order.
///
/// # Errors
/// Where the state directory can't be listed.
pub fn sessions(state: &Path) -> std::io::Result<Vec<SessionId>> {
    let entries = match fs::read_dir(state.join("sessions")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Reads a session's journal and checks its chain.
///
/// # Errors
/// Where there is no such session, or its journal is damaged, newer than this release, or can't be read.
pub fn inspect(state: &Path, session: SessionId) -> Result<Inspected, LedgerError> {
    let path = state.join("sessions").join(session.to_string()).join(journal::NAME);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(LedgerError::NoSession(session));
        }
        Err(error) => return Err(LedgerError::io("opening", &path, &error)),
    };
    let length = file.metadata().map_err(|error| LedgerError::io("opening", &path, &error))?.len();
    let mut inspected = Inspected { records: Vec::new(), unfinished: false, bytes: (0, length) };
    let read = Reader::open(BufReader::new(file), session, length).and_then(|mut reader| {
        while let Some(record) = reader.next()? {
            inspected.records.push(record);
            inspected.bytes.0 = reader.position().length;
        }
        Ok(())
    });
    match read {
        Ok(()) => {}
        Err(Stop::Torn) => inspected.unfinished = true,
        Err(Stop::Damaged(damage)) => return Err(damage.into()),
        Err(Stop::Newer(newer)) => return Err(newer.into()),
        Err(Stop::Io(error)) => return Err(LedgerError::io("reading", &path, &error)),
    }
    Ok(inspected)
}
