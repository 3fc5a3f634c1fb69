//! Leaves in the session's folder what the supervisor was not there to acknowledge.
//!
//! Invariant: the file is complete and synced before it has its name.
#![expect(clippy::disallowed_methods, reason = "the outbox is renamed into place")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use protocol::{
    place::UNFINISHED,
    recorded::RecordId,
    wire::{
        outbox::{FILE_NAME, encode},
        to_supervisor::WorkerRecord,
    },
};

/// Writes the outbox of the session whose folder is `directory`. Nothing is written where there is nothing to leave.
///
/// # Errors
/// Where the folder can't be written; the message says which step failed.
pub(crate) fn write(directory: &Path, records: &[(RecordId, WorkerRecord)]) -> io::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let bytes = encode(records).map_err(io::Error::other)?;
    // A session has one worker at a time.
    let temporary = directory.join(format!("{FILE_NAME}{UNFINISHED}"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, directory.join(FILE_NAME))?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use protocol::wire::outbox::decode;

    use super::*;

    #[test]
    fn what_is_left_can_be_taken_in() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &[]).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let records = vec![(
            RecordId { launch: 1, number: 4 },
            WorkerRecord::ClaudeGone { had_started: true, detail: "exit code 1".into() },
        )];
        write(directory.path(), &records).unwrap();
        let file = directory.path().join(FILE_NAME);
        assert_eq!(decode(&fs::read(&file).unwrap()).unwrap(), records);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
