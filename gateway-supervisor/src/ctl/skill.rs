//! `gatewayctl skill hash FILE`: the entry that lets a session be started with this skill.
//!
//! Invariant: an entry is printed only for a text that a start would take.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use protocol::{digest::Digest, limits::MCP_BODY_BYTES};
use serde_json::json;

use super::{
    CtlError, Report,
    page::{Cell, Page},
};
use crate::{
    mcp::input::SkillContext,
    skill::{Allowlist, AllowlistEntry, admit, normalise},
};

/// The entry of the skill in `file`, under `id` or the name that its place gives it. Asks nobody and changes nothing.
pub(super) fn hash(file: &Path, id: Option<&str>) -> Result<Report, CtlError> {
    let refused = |why: String| {
        let message = format!("hashing the skill in {}: {why}", file.display());
        CtlError::failed(message, "name a SKILL.md that a session could be started with")
    };
    let content = read(file).map_err(|error| refused(error.to_string()))?;
    let skill_id = match id {
        Some(id) => id.to_owned(),
        None => name(file).ok_or_else(|| refused("no name for it; give one with --id".to_owned()))?,
    };
    let digest: Digest = normalise(&content).digest();
    let entry = AllowlistEntry { skill_id: skill_id.clone(), content_sha256: digest.to_string() };
    let allowlist = Allowlist::from_entries(&[entry]).map_err(|error| refused(error.to_string()))?;
    admit(&[SkillContext { skill_id: skill_id.clone(), content }], &allowlist)
        .map_err(|error| refused(error.to_string()))?;
    let body = json!({ "skill_id": skill_id, "content_sha256": digest });
    let mut page = Page::default();
    page.row([Cell::plain(body.to_string())]);
    Ok(Report::done(body, page))
}

fn read(file: &Path) -> io::Result<String> {
    let mut content = String::new();
    // What can't be sent can't be pinned.
    File::open(file)?.take(MCP_BODY_BYTES as u64).read_to_string(&mut content)?;
    Ok(content)
}

/// `review/SKILL.md` and `review.md` are both called `review`.
fn name(file: &Path) -> Option<String> {
    let path = file.canonicalize().ok()?;
    let stem = path.file_stem()?.to_str()?;
    if stem.eq_ignore_ascii_case("SKILL") {
        path.parent()?.file_name()?.to_str().map(str::to_owned)
    } else {
        Some(stem.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_entry_pins_the_file_whatever_its_line_ends_and_an_unusable_one_gets_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("review/SKILL.md");
        fs::create_dir(folder.path().join("review")).unwrap();
        fs::write(&file, "\u{feff}---\r\nname: x\r\n---\r\nCANARY\r\n").unwrap();
        let report = hash(&file, None).unwrap();
        assert_eq!(report.json["skill_id"], "review");
        assert_eq!(
            report.json["content_sha256"],
            Digest::of(b"---\nname: x\n---\nCANARY\n").to_string().as_str()
        );
        assert!(report.page.render(false).contains(&report.json.to_string()));
        assert_eq!(hash(&file, Some("other")).unwrap().json["skill_id"], "other");
        for text in ["", "---\nname: CANARY\n", "---\na: CANARY\n---\n\n"] {
            fs::write(&file, text).unwrap();
            let error = hash(&file, None).err().unwrap().text();
            assert!(error.contains("SKILL.md") && !error.contains("CANARY"), "{error}");
        }
        assert!(hash(&folder.path().join("none"), Some("x")).is_err());
    }
}
