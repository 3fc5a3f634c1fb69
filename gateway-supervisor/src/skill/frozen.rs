//! The instructions of a session's skills, frozen in its folder: one file per text, named by its SHA-256.
//!
//! Invariant: they are durable before the record that names them, and nothing writes them again.
//! Invariant: what is read back is what was frozen, byte for byte, or nothing.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use protocol::{digest::Digest, limits::SKILL_BYTES};

use super::Skill;

/// Name of the folder in the session's own.
pub(crate) const FOLDER: &str = "skills";

/// The frozen instructions of a skill can't be had.
#[derive(Debug, thiserror::Error)]
#[error("reading back the frozen instructions of the skill {skill_id:?}: {reason}")]
pub(crate) struct NotFrozen {
    /// The skill.
    pub(crate) skill_id: String,
    /// Why.
    pub(crate) reason: String,
}

/// Freezes the instructions in a session's folder, which is made. Blocks.
///
/// # Errors
/// Where the disk does not take them.
pub(crate) fn freeze(session: &Path, skills: &[Skill]) -> io::Result<()> {
    if skills.is_empty() {
        return Ok(());
    }
    let folder = session.join(FOLDER);
    for made in [session, &folder] {
        DirBuilder::new().recursive(true).mode(0o700).create(made)?;
        fs::set_permissions(made, Permissions::from_mode(0o700))?;
    }
    let mut written = BTreeSet::new();
    for skill in skills {
        if written.insert(*skill.snapshot.body_sha256.as_bytes()) {
            let path = folder.join(skill.snapshot.body_sha256.to_string());
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(skill.body.expose().as_bytes())?;
            file.sync_all()?;
        }
    }
    File::open(&folder)?.sync_all()?;
    File::open(session)?.sync_all()
}

/// The instructions as they were frozen. Blocks.
///
/// # Errors
/// Where the file is missing, can't be read, or holds anything else.
pub(crate) fn thaw(session: &Path, (skill_id, body_sha256): (&str, &str)) -> Result<String, NotFrozen> {
    let refused = |reason: String| NotFrozen { skill_id: skill_id.to_owned(), reason };
    let path = session.join(FOLDER).join(body_sha256);
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path);
    let file = opened.map_err(|error| refused(error.to_string()))?;
    let mut bytes = Vec::new();
    let limit = SKILL_BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| refused(error.to_string()))?;
    if Digest::of(&bytes).to_string() != body_sha256 {
        return Err(refused("the file does not hold what was frozen".to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| refused("the file is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use protocol::{secret::Secret, skill::SkillSnapshot};

    use super::*;

    fn skill(id: &str, body: &str) -> Skill {
        let digest = Digest::of(body.as_bytes());
        let snapshot = SkillSnapshot {
            skill_id: id.to_owned(),
            content_sha256: digest,
            body_sha256: digest,
            body_bytes: body.len() as u64,
        };
        Skill { snapshot, body: Secret::new(body.to_owned()) }
    }

    fn thawed(session: &Path, skill: &Skill) -> Result<String, NotFrozen> {
        thaw(session, (&skill.snapshot.skill_id, &skill.snapshot.body_sha256.to_string()))
    }

    #[test]
    fn what_is_frozen_is_private_and_comes_back_the_same_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("ses");
        let skills = [skill("a", "same"), skill("b", "same"), skill("c", "other\n")];
        freeze(&session, &skills).unwrap();
        for skill in &skills {
            assert_eq!(thawed(&session, skill).unwrap(), *skill.body.expose());
        }
        let path = |skill: &Skill| session.join(FOLDER).join(skill.snapshot.body_sha256.to_string());
        assert_eq!(fs::metadata(path(&skills[0])).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(session.join(FOLDER)).unwrap().permissions().mode() & 0o777, 0o700);

        fs::write(path(&skills[0]), "changed").unwrap();
        let error = thawed(&session, &skills[0]).unwrap_err().to_string();
        assert!(error.contains("\"a\"") && !error.contains("changed"), "{error}");
        fs::remove_file(path(&skills[2])).unwrap();
        thawed(&session, &skills[2]).unwrap_err();
        std::os::unix::fs::symlink("/etc/hostname", path(&skills[2])).unwrap();
        thawed(&session, &skills[2]).unwrap_err();
    }
}
