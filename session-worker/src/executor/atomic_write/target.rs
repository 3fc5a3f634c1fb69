//! The root that a session writes below, and a file below it, named by components.
//!
//! Invariant: a target's components are plain names: no `..`, no link to follow, none of a repository's own.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    os::unix::{ffi::OsStrExt, fs::MetadataExt, fs::OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

use protocol::workspace::RootIdentity;
use unicode_normalization::UnicodeNormalization;

use super::refusal::Refusal;

/// The most directories between the root and a file: each costs a handle while a write is prepared.
const MAX_COMPONENTS: usize = 128;
/// The longest name that any file system here takes, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// What a file is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    pub(super) fn of_file(file: &File) -> std::io::Result<Self> {
        Ok(Self::of(&file.metadata()?))
    }

    #[cfg_attr(
        target_os = "linux",
        expect(clippy::unnecessary_cast, reason = "a device number has 32 bits on macOS")
    )]
    pub(super) fn of_stat(stat: &nix::sys::stat::FileStat) -> Self {
        Self { device: stat.st_dev as u64, inode: stat.st_ino }
    }
}

/// The directory that a session may write below, held open.
#[derive(Debug)]
pub(crate) struct Root {
    directory: File,
    path: PathBuf,
    identity: Identity,
}

impl Root {
    /// Opens the canonical directory `path`. That it is the one of the session's birth is for the caller to
    /// check, on [`Root::directory`].
    ///
    /// # Errors
    /// [`Refusal::System`] where it can't be opened as a directory.
    pub(crate) fn open(path: &Path) -> Result<Self, Refusal> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
        let opened = opened.and_then(|directory| Ok((Identity::of_file(&directory)?, directory)));
        let (identity, directory) = opened.map_err(|source| Refusal::System {
            attempt: "opening the session's directory",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self { directory, path: path.to_owned(), identity })
    }

    /// Opens the directory of the session's birth: by its path, and as what it was.
    ///
    /// # Errors
    /// [`Refusal::RootReplaced`] where another directory has the path now, [`Refusal::System`] where it can't be opened.
    pub(crate) fn of_birth(path: &Path, birth: &RootIdentity) -> Result<Self, Refusal> {
        let root = Self::open(path)?;
        match RootIdentity::of(root.directory()) {
            Ok(now) if !birth.is_other_than(&now) => Ok(root),
            Ok(_) => Err(Refusal::RootReplaced { root: path.to_owned() }),
            Err(source) => Err(Refusal::System {
                attempt: "looking at the session's directory",
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Its handle.
    pub(crate) fn directory(&self) -> &File {
        &self.directory
    }

    /// Its canonical path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the place of an absolute path below this root.
    ///
    /// The root is recognised by what it is where the path does not start with its very name, so that another
    /// spelling of it, as the file system compares, is the same root.
    ///
    /// # Errors
    /// [`Refusal::OutsideRoot`], [`Refusal::BadPath`], [`Refusal::IntoGit`].
    pub(crate) fn locate(&self, file: &Path) -> Result<Target, Refusal> {
        let bad = |why| Refusal::BadPath { path: file.to_owned(), why };
        if !file.is_absolute() {
            return Err(bad("it is not absolute"));
        }
        if file.components().any(|part| part == Component::ParentDir) {
            return Err(bad("it has `..` in it; write it without"));
        }
        // A path's own comparison drops such an end, so it is looked for before that.
        if [&b"/"[..], b"/."].iter().any(|end| file.as_os_str().as_bytes().ends_with(end)) {
            return Err(bad("it ends as a directory's does"));
        }
        let outside = || Refusal::OutsideRoot { path: file.to_owned(), root: self.path.clone() };
        let relative = match file.strip_prefix(&self.path) {
            Ok(relative) => relative,
            Err(_) => {
                let mut ancestors: Vec<&Path> = file.ancestors().collect();
                ancestors.reverse();
                let is_root = |path: &&&Path| {
                    fs::metadata(path).is_ok_and(|found| Identity::of(&found) == self.identity)
                };
                let root = ancestors.iter().find(is_root).ok_or_else(outside)?;
                file.strip_prefix(root).map_err(|_| outside())?
            }
        };
        Target::new(relative, &self.path)
    }

    /// Checks that the root's path still names the opened directory.
    pub(super) fn check_in_place(&self) -> Result<(), Refusal> {
        let now = fs::symlink_metadata(&self.path).map(|metadata| Identity::of(&metadata));
        match now {
            Ok(identity) if identity == self.identity => Ok(()),
            Ok(_) | Err(_) => Err(Refusal::RootReplaced { root: self.path.clone() }),
        }
    }
}

/// A file below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    parents: Vec<OsString>,
    name: OsString,
    relative: PathBuf,
    absolute: PathBuf,
}

impl Target {
    /// The file at `relative` below `root`.
    ///
    /// # Errors
    /// [`Refusal::BadPath`], [`Refusal::IntoGit`].
    pub(crate) fn new(relative: &Path, root: &Path) -> Result<Self, Refusal> {
        let absolute = root.join(relative);
        let bad = |why| Refusal::BadPath { path: absolute.clone(), why };
        let mut names = Vec::new();
        for part in relative.components() {
            let Component::Normal(name) = part else {
                return Err(bad("it is not a plain path below the session's directory"));
            };
            if name.len() > MAX_NAME_BYTES {
                return Err(bad("one of its names is longer than 255 bytes"));
            }
            if name.as_bytes().contains(&0) {
                return Err(bad("it holds a NUL character"));
            }
            if is_git(name) {
                return Err(Refusal::IntoGit { path: absolute });
            }
            names.push(name.to_owned());
        }
        if names.len() > MAX_COMPONENTS {
            return Err(bad("it is nested more than 128 directories deep"));
        }
        let Some(name) = names.pop() else {
            return Err(bad("it is the session's directory itself"));
        };
        let relative: PathBuf = names.iter().chain([&name]).collect();
        let absolute = root.join(&relative);
        Ok(Self { parents: names, name, relative, absolute })
    }

    /// The path relative to the root.
    pub(crate) fn relative(&self) -> &Path {
        &self.relative
    }

    /// The path as it is shown and recorded.
    pub(crate) fn absolute(&self) -> &Path {
        &self.absolute
    }

    pub(super) fn parents(&self) -> &[OsString] {
        &self.parents
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The absolute path of the directory that is `depth` components below the root.
    pub(super) fn directory_at(&self, depth: usize) -> PathBuf {
        let above = self.parents.len() + 1 - depth.min(self.parents.len());
        self.absolute.ancestors().nth(above).unwrap_or(&self.absolute).to_owned()
    }
}

/// Whether some file system takes this name for `.git`: in any case and Unicode form, with characters that
/// compare as nothing, with the endings that Windows file systems drop, or by its short name there.
fn is_git(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let folded: String = name
        .nfkc()
        .filter(|c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}'))
        .flat_map(char::to_lowercase)
        .collect();
    let folded = folded.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    matches!(folded, ".git" | "git~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_repositorys_own_directory_is_known() {
        for name in
            [".git", ".GIT", ".Git", ".g\u{200c}it", ".git.", ".git ", "GIT~1", ".ｇit", ".git::$DATA"]
        {
            assert!(is_git(OsStr::new(name)), "{name:?}");
        }
        for name in [".gitignore", ".github", "git", ".git2", "a.git", ".gitmodules", ".gi"] {
            assert!(!is_git(OsStr::new(name)), "{name:?}");
        }
    }

    #[test]
    fn a_path_that_is_no_plain_file_below_the_root_is_refused() {
        let root = Path::new("/r");
        let target = |path: &str| Target::new(Path::new(path), root);
        for path in ["", "/", "..", "../a", "a/../../b", &"x".repeat(256), &"a/".repeat(200)] {
            assert!(matches!(target(path), Err(Refusal::BadPath { .. })), "{path}");
        }
        for path in [".git", ".git/hooks/x", "a/.git/config", "sub/.GIT/x"] {
            assert!(matches!(target(path), Err(Refusal::IntoGit { .. })), "{path}");
        }
        let fine = target("a//b/./c").unwrap();
        assert_eq!((fine.relative(), fine.absolute()), (Path::new("a/b/c"), Path::new("/r/a//b/./c")));
        assert_eq!(fine.directory_at(1), Path::new("/r/a"));
        assert_eq!(fine.directory_at(2), Path::new("/r/a/b"));
        assert_eq!(fine.directory_at(0), root);
    }

    #[test]
    fn a_path_that_names_a_directory_is_no_file_under_whichever_name_of_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("root");
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, real.with_file_name("other")).unwrap();
        let root = Root::open(&real).unwrap();
        for base in [real.clone(), real.with_file_name("other")] {
            for end in ["/", "//", "/.", "/./"] {
                let file = PathBuf::from(format!("{}/a{end}", base.display()));
                assert!(matches!(root.locate(&file), Err(Refusal::BadPath { .. })), "{file:?}");
            }
            assert!(root.locate(&base.join(".a.")).is_ok());
        }
    }
}
