//! What a directory is beyond its name, and whether it still is.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use protocol::{process_identity, timestamp::Timestamp, workspace::RootIdentity};

/// The identity of the directory at `path`.
///
/// # Errors
/// Where there is none, it is no directory, or the system does not tell.
pub(crate) fn of(path: &Path) -> io::Result<RootIdentity> {
    let found = fs::metadata(path)?;
    if !found.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    let filesystem = nix::sys::statvfs::statvfs(path).ok().map(|s| format!("{:x}", s.filesystem_id()));
    Ok(RootIdentity {
        device: found.dev(),
        inode: found.ino(),
        filesystem,
        born_at: found.created().ok().map(moment),
        boot: process_identity::boot()?,
    })
}

fn moment(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How what is at `path` now differs from `before`; none where it is the same directory.
pub(crate) fn difference(path: &Path, before: &RootIdentity) -> Option<String> {
    match of(path) {
        Ok(now) => differs(before, &now).then(|| {
            "the directory under the session's path is another one than the session was started in".to_owned()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some("the directory that the session was started in is no longer there".to_owned())
        }
        Err(error) => Some(format!(
            "the directory that the session was started in can't be looked at: {}",
            error.kind()
        )),
    }
}

fn differs(before: &RootIdentity, now: &RootIdentity) -> bool {
    let same_boot = before.boot == now.boot;
    let births = before.born_at.zip(now.born_at);
    if before.inode != now.inode || births.is_some_and(|(then, now)| then != now) {
        return true;
    }
    if same_boot && before.device != now.device {
        return true;
    }
    let moved =
        before.filesystem.as_ref().zip(now.filesystem.as_ref()).is_some_and(|(then, now)| then != now);
    // Some file systems make their id from the device number, which may change over a reboot: then an equal inode that was
    // born in the same millisecond says more.
    moved && (same_boot || births.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> RootIdentity {
        RootIdentity {
            device: 1,
            inode: 2,
            filesystem: Some("a".into()),
            born_at: Some(Timestamp(5)),
            boot: "x".into(),
        }
    }

    #[test]
    fn what_makes_another_directory() {
        let before = identity();
        let after_boot = RootIdentity { boot: "y".into(), ..identity() };
        for (now, other) in [
            (identity(), false),
            (RootIdentity { inode: 3, ..identity() }, true),
            (RootIdentity { born_at: Some(Timestamp(6)), ..identity() }, true),
            (RootIdentity { born_at: None, ..identity() }, false),
            (RootIdentity { device: 9, ..identity() }, true),
            (RootIdentity { filesystem: Some("b".into()), ..identity() }, true),
            (RootIdentity { device: 9, ..after_boot.clone() }, false),
            (RootIdentity { device: 9, filesystem: Some("b".into()), ..after_boot.clone() }, false),
            (RootIdentity { filesystem: Some("b".into()), born_at: None, ..after_boot.clone() }, true),
            (RootIdentity { inode: 3, ..after_boot }, true),
        ] {
            assert_eq!(differs(&before, &now), other, "{now:?}");
        }
    }

    #[test]
    fn a_directory_made_again_under_the_same_name_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root");
        fs::create_dir(&path).unwrap();
        let before = of(&path).unwrap();
        assert_eq!(difference(&path, &before), None);
        fs::rename(&path, folder.path().join("kept")).unwrap();
        assert!(difference(&path, &before).unwrap().contains("no longer"));
        fs::create_dir(&path).unwrap();
        assert!(difference(&path, &before).unwrap().contains("another"));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(difference(&path, &before).is_some());
    }
}
