//! How paths are compared: part by part, as the system compares names.

use std::path::{Component, Path};

/// `/proc/<pid>/…`, `/proc/self/…` and `/proc/thread-self/…`.
pub(super) fn is_process(path: &Path) -> bool {
    let mut parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    });
    parts.next().is_some_and(|top| top == "proc")
        && parts.next().is_some_and(|who| {
            who == "self" || who == "thread-self" || who.bytes().all(|byte| byte.is_ascii_digit())
        })
}

pub(super) fn is_below(path: &Path, tree: &Path) -> bool {
    // Asked some hundred times for every file that a tool touches.
    if !cfg!(target_os = "macos") {
        return path.starts_with(tree);
    }
    let mut path = path.components();
    tree.components().all(|wanted| {
        path.next().is_some_and(|found| {
            same_as_the_system_compares(
                &found.as_os_str().to_string_lossy(),
                &wanted.as_os_str().to_string_lossy(),
            )
        })
    })
}

pub(super) fn has_prefix_below(path: &Path, directory: &Path, prefix: &str) -> bool {
    is_below(path, directory)
        && path
            .components()
            .nth(directory.components().count())
            .is_some_and(|name| starts_as_the_system_compares(&name.as_os_str().to_string_lossy(), prefix))
}

/// macOS's file systems usually ignore case: there `.SSH` is `.ssh`. Where they don't, this protects a little more.
fn same_as_the_system_compares(found: &str, wanted: &str) -> bool {
    if cfg!(target_os = "macos") { found.to_lowercase() == wanted.to_lowercase() } else { found == wanted }
}

pub(super) fn starts_as_the_system_compares(found: &str, prefix: &str) -> bool {
    if cfg!(target_os = "macos") {
        found.to_lowercase().starts_with(prefix)
    } else {
        found.starts_with(prefix)
    }
}
