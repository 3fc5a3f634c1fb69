//! Clearing up: the one place where the supervisor removes anything.
#![expect(clippy::disallowed_methods, reason = "the one place that clears a session up")]

mod staged;

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use protocol::{action::Resolution, place::UNFINISHED, workspace::Workspace};

pub(crate) use staged::{Leftover, PreparedChange};

use crate::{session::state::Findings, workspace::identity};

/// Removes what writes without a receipt left beside their files. What is kept is told in their findings. Where the
/// directory is another one now, nothing in it is touched. Blocks on the file system.
pub(crate) fn after_writes(workspace: &Workspace, left: &[Leftover], findings: &mut Findings) {
    if left.is_empty() || identity::difference(&workspace.root, &workspace.identity).is_some() {
        return;
    }
    for leftover in left {
        let finding = findings.get_mut(&leftover.action_id);
        let found: Option<Resolution> = finding.as_ref().map(|(resolution, _)| *resolution);
        match (staged::clear(&workspace.root, leftover, found), finding) {
            (Ok(Some(kept)), Some((resolution, detail))) => {
                if matches!(leftover.prepared, Some(PreparedChange::Removal(_))) {
                    // What was moved aside was not what was to go, and is not back in its place.
                    *resolution = Resolution::Indeterminate;
                }
                detail.push_str(&format!("; another program's version was kept beside it as {kept}"));
            }
            (Ok(Some(kept)), None) => tracing::warn!(kept, "something that nothing explains was kept"),
            (Ok(None), _) => {}
            (Err(error), _) => tracing::warn!(%error, "clearing up after an interrupted write failed"),
        }
    }
}

/// Removes a file, if it is there. A failure is logged: what is left is in the way of nobody.
pub(crate) async fn file(path: PathBuf) {
    remove(path, |path| std::fs::remove_file(path)).await;
}

/// Removes what stands in a folder of a session under the ending of files that are being written. Nobody may write there.
pub(crate) async fn unfinished(folder: PathBuf) {
    remove(folder, |folder| {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(UNFINISHED) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    })
    .await;
}

/// Removes a folder of the gateway's own and what is in it, if it is there: also what commands closed to themselves, and
/// folders in each other without end. Links in it are removed, not followed. Nothing may run in it any more.
pub(crate) async fn folder(path: PathBuf) {
    remove(path, remove_whole).await;
}

/// Removes a folder that holds nothing.
pub(crate) async fn empty_folder(path: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || fs::remove_dir(path)).await;
    if let Ok(Err(error)) = removed
        && !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty)
    {
        tracing::debug!(%error, "an empty folder stays");
    }
}

fn remove_whole(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    open_up(path)?;
    let mut moved = 0_u64;
    loop {
        let mut empty = true;
        for entry in fs::read_dir(path)? {
            empty = false;
            let entry = entry?.path();
            if is_folder(&entry)? {
                flatten(&entry, path, &mut moved)?;
            } else {
                fs::remove_file(&entry)?;
            }
        }
        if empty {
            return fs::remove_dir(path);
        }
    }
}

/// Removes a folder directly below `top`, after moving the folders in it up beside it: so no path grows longer than the
/// system takes, and no depth takes more memory.
fn flatten(folder: &Path, top: &Path, moved: &mut u64) -> io::Result<()> {
    open_up(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?.path();
        if !is_folder(&entry)? {
            fs::remove_file(&entry)?;
            continue;
        }
        // Moving a folder writes its `..`.
        open_up(&entry)?;
        loop {
            let place = top.join(format!(".clearing-{moved}"));
            *moved += 1;
            if fs::symlink_metadata(&place).is_err() {
                fs::rename(&entry, place)?;
                break;
            }
        }
    }
    fs::remove_dir(folder)
}

fn is_folder(path: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(path)?.is_dir())
}

/// A command may have taken its own rights from a folder.
fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

async fn remove(path: PathBuf, how: fn(&Path) -> io::Result<()>) {
    let removed = tokio::task::spawn_blocking({
        let path = path.clone();
        move || how(&path)
    });
    done(&path, removed.await.unwrap_or_else(|error| Err(io::Error::other(error))));
}

fn done(path: &Path, removed: io::Result<()>) {
    match removed {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(path = %path.display(), %error, "clearing up failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_is_unfinished_goes() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.part", "b", "part", "c.part"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        unfinished(folder.path().to_owned()).await;
        unfinished(folder.path().join("none")).await;
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["b", "part"]);
    }

    #[tokio::test]
    async fn nothing_that_a_command_leaves_resists() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        let scratch = root.path().join("scratch");
        fs::create_dir_all(scratch.join("closed/in")).unwrap();
        fs::write(scratch.join("closed/in/file"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, scratch.join("closed/link")).unwrap();
        // Deeper than a path may be long, as only a program that goes step by step can make it.
        let mut inner = root.path().join("inner");
        fs::create_dir(&inner).unwrap();
        for depth in 0..3_000 {
            let around = root.path().join(format!("around-{depth}"));
            fs::create_dir(&around).unwrap();
            fs::rename(&inner, around.join("a-name-that-makes-paths-long")).unwrap();
            inner = around;
        }
        fs::rename(&inner, scratch.join("deep")).unwrap();
        for closed in ["closed/in", "closed"] {
            fs::set_permissions(scratch.join(closed), fs::Permissions::from_mode(0o0)).unwrap();
        }
        folder(scratch.clone()).await;
        assert!(!scratch.exists());
        assert!(outside.join("kept").exists(), "a link was followed");
        folder(scratch).await;
    }
}
