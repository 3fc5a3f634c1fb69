//! A folder's whole content as one value, to show that nothing changed.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path};

use protocol::digest::Digest;

/// Mode and content of every entry below `folder`, by path.
///
/// # Panics
/// Where an entry can't be read.
#[must_use]
pub fn snapshot(folder: &Path) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("the folder can be listed").flatten() {
            let path = entry.path();
            let found = fs::symlink_metadata(&path).expect("the entry is there");
            let content = if found.is_dir() {
                open.push(path.clone());
                "directory".to_owned()
            } else if found.is_symlink() {
                format!("link to {}", fs::read_link(&path).expect("a link has a target").display())
            } else {
                Digest::of(&fs::read(&path).expect("the file can be read")).to_string()
            };
            let name = path.strip_prefix(folder).expect("below the folder").display().to_string();
            entries.insert(name, format!("{:o} {content}", found.mode()));
        }
    }
    entries
}
