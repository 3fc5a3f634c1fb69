//! Skills: the owner pins the exact text of each instruction file; only its instructions are kept, and nothing in it is run.
//!
//! A skill is admitted when the allowlist has its id with the SHA-256 of its whole normalised text. What is kept is the text
//! without its front matter. It can ask for whatever it likes: what a session may do was fixed before it was read.
//!
//! Invariant: a skill's text stands in no error, no log line, and no `Debug` output.

mod allowlist;
mod frozen;
mod text;

use protocol::{
    digest::Digest,
    limits::{KEY_CHARS, SKILL_BYTES, SKILLS},
    secret::Secret,
    skill::SkillSnapshot,
};

pub use allowlist::{Allowlist, AllowlistEntry, InvalidAllowlist};
pub(crate) use frozen::{FOLDER, NotFrozen, freeze, thaw};
pub use text::{Normalised, normalise};

use crate::mcp::input::SkillContext;

/// Stands beside the instructions wherever they are shown.
pub(crate) const NOTE: &str = "Instructions that the owner pinned, and nothing else: they change nothing that this session may do, and nothing that they name is loaded or run.";

/// Bytes that a skill takes in a turn.
pub(crate) fn shown_bytes(snapshot: &SkillSnapshot) -> usize {
    let body = usize::try_from(snapshot.body_bytes).unwrap_or(usize::MAX);
    body.saturating_add(snapshot.skill_id.len() + NOTE.len())
}

/// A skill that was admitted.
#[derive(Debug, Clone)]
pub struct Skill {
    /// What may be told about it.
    pub snapshot: SkillSnapshot,
    /// Its instructions: shown to ChatGPT and to nobody else.
    pub body: Secret<String>,
}

/// Why skills were not admitted. `position` counts the contexts from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillRefusal {
    /// There are more than a session takes.
    #[error("skill_contexts: expected at most {SKILLS}, got {0}")]
    TooMany(usize),
    /// An id is empty, too long, or has control characters.
    #[error(
        "skill_contexts[{position}].skill_id: expected 1 to {KEY_CHARS} characters without control characters"
    )]
    InvalidId {
        /// Which context.
        position: usize,
    },
    /// Two contexts have one id.
    #[error("skill_contexts[{position}].skill_id: {skill_id:?} was given before")]
    Twice {
        /// Which context.
        position: usize,
        /// The id.
        skill_id: String,
    },
    /// The owner allows no skill with this id.
    #[error("skill_contexts[{position}].skill_id: the owner's allowlist has no skill {skill_id:?}")]
    Unknown {
        /// Which context.
        position: usize,
        /// The id.
        skill_id: String,
    },
    /// The owner pinned another text.
    #[error(
        "skill_contexts[{position}].content: skill {skill_id:?} has SHA-256 {found} once normalised, which the owner's allowlist does not pin"
    )]
    OtherText {
        /// Which context.
        position: usize,
        /// The id.
        skill_id: String,
        /// The digest of the text that was sent.
        found: Digest,
    },
    /// The front matter does not end.
    #[error("skill_contexts[{position}].content: the front matter opens with --- and never closes")]
    OpenFrontMatter {
        /// Which context.
        position: usize,
    },
    /// Nothing is left without the front matter.
    #[error("skill_contexts[{position}].content: there are no instructions besides the front matter")]
    Empty {
        /// Which context.
        position: usize,
    },
    /// The instructions together are too long.
    #[error("skill_contexts: the instructions together have {0} bytes; a session takes {SKILL_BYTES}")]
    TooLarge(usize),
}

/// Admits the skills of a start, or none of them.
///
/// # Errors
/// Names the first context that can't be admitted, and why.
pub fn admit(contexts: &[SkillContext], allowlist: &Allowlist) -> Result<Vec<Skill>, SkillRefusal> {
    if contexts.len() > SKILLS {
        return Err(SkillRefusal::TooMany(contexts.len()));
    }
    let mut skills: Vec<Skill> = Vec::with_capacity(contexts.len());
    for (position, context) in contexts.iter().enumerate() {
        if skills.iter().any(|earlier| earlier.snapshot.skill_id == context.skill_id) {
            return Err(SkillRefusal::Twice { position, skill_id: context.skill_id.clone() });
        }
        skills.push(admit_one(position, context, allowlist)?);
    }
    let bytes = skills.iter().map(|skill| skill.body.expose().len()).sum();
    if bytes > SKILL_BYTES { Err(SkillRefusal::TooLarge(bytes)) } else { Ok(skills) }
}

fn admit_one(position: usize, context: &SkillContext, allowlist: &Allowlist) -> Result<Skill, SkillRefusal> {
    let skill_id = context.skill_id.clone();
    let characters = skill_id.chars().count();
    if characters == 0 || characters > KEY_CHARS || skill_id.chars().any(char::is_control) {
        return Err(SkillRefusal::InvalidId { position });
    }
    if !allowlist.knows(&skill_id) {
        return Err(SkillRefusal::Unknown { position, skill_id });
    }
    let normalised = normalise(&context.content);
    let content_sha256 = normalised.digest();
    if !allowlist.pins(&skill_id, content_sha256) {
        return Err(SkillRefusal::OtherText { position, skill_id, found: content_sha256 });
    }
    let body = normalised.instructions().ok_or(SkillRefusal::OpenFrontMatter { position })?.to_owned();
    if body.trim().is_empty() {
        return Err(SkillRefusal::Empty { position });
    }
    let snapshot = SkillSnapshot {
        skill_id,
        content_sha256,
        body_sha256: Digest::of(body.as_bytes()),
        body_bytes: body.len() as u64,
    };
    Ok(Skill { snapshot, body: Secret::new(body) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(skill_id: &str, content: &str) -> SkillContext {
        SkillContext { skill_id: skill_id.to_owned(), content: content.to_owned() }
    }

    fn pinned(entries: &[(&str, &str)]) -> Allowlist {
        let entries: Vec<_> = entries
            .iter()
            .map(|(id, text)| serde_json::json!({"skill_id": id, "content_sha256": normalise(text).digest()}))
            .collect();
        Allowlist::from_json(&serde_json::to_string(&entries).unwrap()).unwrap()
    }

    const TEXT: &str = "---\nname: review\nallowed-tools: Bash\n---\nRead first.\n";

    #[test]
    fn a_pinned_text_is_admitted_in_every_line_ending_and_only_its_instructions_stay() {
        let allowlist = pinned(&[("review", TEXT)]);
        for same in
            [TEXT.to_owned(), TEXT.replace('\n', "\r\n"), TEXT.replace('\n', "\r"), format!("\u{feff}{TEXT}")]
        {
            let skills = admit(&[context("review", &same)], &allowlist).unwrap();
            assert_eq!(skills[0].body.expose(), "Read first.\n");
            assert_eq!(skills[0].snapshot.body_sha256, Digest::of(b"Read first.\n"));
            assert!(!format!("{skills:?}").contains("Read first"));
        }
    }

    #[test]
    fn the_bounds_are_the_bounds_and_every_text_is_what_its_owner_wrote() {
        let whole = "x".repeat(SKILL_BYTES);
        let half = format!("---\nname: half\n---\n{}", "y".repeat(SKILL_BYTES / 2));
        let texts = [
            ("whole", whole.as_str()),
            ("half", &half),
            ("bare", "No front matter.\n---\nand a rule below it\n"),
            ("ruled", "---\na: 1\n---\nBody\n\n---\n\nmore\n---\n"),
            ("nothing", "---\na: 1\n---"),
            ("blank", ""),
        ];
        let allowlist = pinned(&texts);
        let admitted = |ids: &[&str]| {
            let text = |id: &str| texts.iter().find(|(name, _)| *name == id).unwrap().1;
            let contexts: Vec<_> = ids.iter().map(|id| context(id, text(id))).collect();
            admit(&contexts, &allowlist)
                .map(|skills| skills.into_iter().map(|skill| skill.body.expose().clone()).collect::<Vec<_>>())
        };
        // The front matter does not count.
        assert_eq!(admitted(&["whole"]).unwrap()[0].len(), SKILL_BYTES);
        assert!(admitted(&["half"]).is_ok());
        assert_eq!(admitted(&["whole", "half"]), Err(SkillRefusal::TooLarge(SKILL_BYTES + SKILL_BYTES / 2)));
        assert_eq!(admitted(&["bare"]).unwrap(), [texts[2].1]);
        assert_eq!(admitted(&["ruled"]).unwrap(), ["Body\n\n---\n\nmore\n---\n"]);
        for empty in ["nothing", "blank"] {
            assert_eq!(admitted(&[empty]), Err(SkillRefusal::Empty { position: 0 }), "{empty}");
        }
        // Line ends and a mark are no other text; a second mark, or one that stands further back, is.
        let marked = ["\u{feff}\u{feff}Be brief.\n", " \u{feff}Be brief.\n"];
        for other in marked {
            assert!(admit(&[context("bare", other)], &allowlist).is_err());
        }
    }

    #[test]
    fn an_entry_that_comes_twice_is_one_and_one_skill_may_have_several_texts() {
        let entry =
            |text: &str| format!(r#"{{"skill_id":"a","content_sha256":"{}"}}"#, normalise(text).digest());
        let list = format!("[{},{},{}]", entry("one"), entry("one"), entry("two"));
        let allowlist = Allowlist::from_json(&list).unwrap();
        assert_eq!(allowlist, Allowlist::from_json(&format!("[{},{}]", entry("two"), entry("one"))).unwrap());
        for text in ["one", "two"] {
            assert!(admit(&[context("a", text)], &allowlist).is_ok());
        }
        assert!(admit(&[context("a", "three")], &allowlist).is_err());
        let shouted =
            list.to_uppercase().replace("SKILL_ID", "skill_id").replace("CONTENT_SHA256", "content_sha256");
        let error = Allowlist::from_json(&shouted).unwrap_err().to_string();
        assert!(error.contains("entry 0") && error.contains("lower-case"), "{error}");
    }

    #[test]
    fn what_is_not_pinned_is_refused_without_showing_it() {
        let allowlist =
            pinned(&[("review", TEXT), ("open", "---\nname: x\n"), ("empty", "---\na: b\n---\n \n")]);
        let large = "x".repeat(SKILL_BYTES + 1);
        let big = pinned(&[("large", &large)]);
        let cases = [
            (vec![context("review", &format!("{TEXT} "))], &allowlist, "SHA-256"),
            (vec![context("other", TEXT)], &allowlist, "no skill"),
            (vec![context("", TEXT)], &allowlist, "skill_id"),
            (vec![context("review", TEXT), context("review", TEXT)], &allowlist, "skill_contexts[1]"),
            (vec![context("open", "---\nname: x\n")], &allowlist, "never closes"),
            (vec![context("empty", "---\na: b\n---\n \n")], &allowlist, "no instructions"),
            (vec![context("review", TEXT); 9], &allowlist, "at most 8"),
            (vec![context("large", &large)], &big, "together"),
        ];
        for (contexts, allowlist, words) in cases {
            let refusal = admit(&contexts, allowlist).unwrap_err().to_string();
            assert!(refusal.contains(words) && !refusal.contains("Read first"), "{refusal}");
        }
    }
}
