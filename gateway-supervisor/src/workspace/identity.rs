//! What a directory is beyond its name, and whether it still is.

use std::{io, path::Path};

use protocol::workspace::RootIdentity;

/// How what is at `path` now differs from `before`; none where it is the same directory.
pub(crate) fn difference(path: &Path, before: &RootIdentity) -> Option<String> {
    match RootIdentity::at(path) {
        Ok(now) => before.is_other_than(&now).then(|| {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_made_again_under_the_same_name_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root");
        fs::create_dir(&path).unwrap();
        let before = RootIdentity::at(&path).unwrap();
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
