//! Which file a command's name means, and every name on the way to it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use protocol::failure::ToolErrorCode;
use sandbox_profiles::AbsolutePath;

use super::refusal::MODELS;
use crate::executor::{display, outcome::ToolFailure};

/// Links from one name to the next that are followed; the kernel follows 40.
const HOPS: usize = 40;

/// The executable file that a name means: by its path, or on the search path.
fn located(name: &str, cwd: &Path, search: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(cwd.join(name)).filter(|path| is_executable(path));
    }
    std::env::split_paths(search)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

/// The file name of each link on the way to the program, and of its end; none where there is no program of that name.
pub(super) fn hops(name: &str, cwd: &Path, search: &str) -> Vec<String> {
    located(name, cwd, search).map(|path| names_of(&path)).unwrap_or_default()
}

/// Finds the program, as it was named: a multi-call program looks at the name by which it is started.
///
/// # Errors
/// `not_found` where there is no executable file of that name.
pub(super) fn find(name: &str, cwd: &Path, search: &str) -> Result<AbsolutePath, ToolFailure> {
    let missing = |why: String| {
        ToolFailure::new(
            ToolErrorCode::NotFound,
            format!("running {}: {why}; nothing was run", display::path(Path::new(name))),
        )
    };
    let Some(path) = located(name, cwd, search) else {
        return Err(missing(if name.contains('/') {
            "it is no executable file".into()
        } else {
            format!("no program of that name is on the search path ({search}); give its path, or install it")
        }));
    };
    // A path with `..` is resolved but for its last name.
    let tidy = match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        (None, _) | (_, None) => path,
    };
    AbsolutePath::new(tidy).map_err(|error| missing(error.to_string()))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The file name of a path, of each link it leads through, and of its end.
fn names_of(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut here = path.to_path_buf();
    for _ in 0..HOPS {
        names.extend(here.file_name().map(|name| name.to_string_lossy().into_owned()));
        let Ok(target) = fs::read_link(&here) else { break };
        here = here.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
    }
    let end = path.canonicalize().ok();
    names.extend(end.and_then(|end| end.file_name().map(|name| name.to_string_lossy().into_owned())));
    names
}

/// The files of other models' clients on the search path: a command can't even read them. Of a package, all of it.
pub(super) fn model_clients(search: &str) -> Vec<AbsolutePath> {
    let mut found: Vec<AbsolutePath> = std::env::split_paths(search)
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| MODELS.iter().map(move |name| folder.join(name)))
        .filter(|path| is_executable(path))
        .filter_map(|path| path.canonicalize().ok())
        .filter_map(|real| AbsolutePath::new(package_of(&real).unwrap_or(real)).ok())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The folder of the npm package that a file lies in: `node_modules/name` or `node_modules/@scope/name`.
fn package_of(file: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = file.components().collect();
    let modules = parts.iter().rposition(|part| part.as_os_str() == "node_modules")?;
    let scoped = parts.get(modules + 1)?.as_os_str().to_string_lossy().starts_with('@');
    let length = modules + if scoped { 3 } else { 2 };
    (parts.len() > length).then(|| parts[..length].iter().collect())
}
