//! What is wrong on this machine, and what mends it.
//!
//! Invariant: it changes nothing, and it works without a running gateway.

mod claude_code;
mod door;
mod program;
mod state;
mod walls;

use serde::Serialize;
use serde_json::json;

use super::{
    Report,
    page::{Cell, Page, Tone},
};
use crate::config::Config;

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// As it should be.
    Good,
    /// The gateway works; the owner should know.
    Care,
    /// The gateway can't do its job.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    /// What was looked at.
    name: &'static str,
    verdict: Verdict,
    /// What was found.
    detail: String,
    /// What mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Finding {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, detail: detail.into(), mend: None }
    }

    fn care(name: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Care, detail: detail.into(), mend: Some(mend.into()) }
    }

    fn bad(name: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Bad, detail: detail.into(), mend: Some(mend.into()) }
    }
}

/// Looks at everything.
pub(super) fn examine(config: &Config) -> Report {
    let supervisor = door::supervisor(config);
    let mut findings = vec![claude_code::program(config)];
    findings.extend(state::directory(config));
    findings.push(state::token(config, supervisor.running()));
    findings.push(state::space(config));
    findings.push(supervisor.finding());
    findings.extend(door::records(config, &supervisor));
    findings.push(door::port(config, &supervisor));
    findings.push(walls::stand());
    report(&findings)
}

fn report(findings: &[Finding]) -> Report {
    let worst = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let (bad, care) = (worst(Verdict::Bad), worst(Verdict::Care));
    let json = json!({"healthy": bad == 0, "checks": findings});
    Report { json, page: page(findings, bad, care), code: u8::from(bad > 0) }
}

fn page(findings: &[Finding], bad: usize, care: usize) -> Page {
    let mut page = Page::default();
    for finding in findings {
        let (word, tone) = match finding.verdict {
            Verdict::Good => ("good", Tone::Good),
            Verdict::Care => ("note", Tone::Care),
            Verdict::Bad => ("BAD", Tone::Bad),
        };
        page.row([Cell::new(word, tone), Cell::new(finding.name, Tone::Name), Cell::plain(&finding.detail)]);
        if let Some(mend) = &finding.mend {
            page.row([Cell::plain(""), Cell::plain(""), Cell::plain(format!("→ {mend}"))]);
        }
    }
    page.gap();
    page.row([match (bad, care) {
        (0, 0) => Cell::new("Everything is as it should be.", Tone::Good),
        (0, _) => Cell::new("The gateway can do its job; see the notes.", Tone::Good),
        _ => Cell::new(
            format!("{bad} of {} must be mended; the lines with an arrow say how.", findings.len()),
            Tone::Bad,
        ),
    }]);
    page
}

#[cfg(test)]
mod tests;
