//! How tasks are delegated: where the model is, under which names, and within which bounds.

use std::{net::SocketAddr, path::PathBuf};

use protocol::{
    limits::{SUBSESSION, SUBSESSION_MAX, SUBSESSION_TURNS},
    wire::launch::Delegation,
};

use super::{ConfigError, Settings};

/// DeepSeek's own endpoint that speaks the Messages API.
const URL: &str = "https://api.deepseek.com/anthropic";

/// The names of its models.
const FLASH: &str = "deepseek-v4-flash";
const PRO: &str = "deepseek-v4-pro";

/// What the owner set. The program is empty where Claude Code's own is to be used.
pub(super) fn read(settings: &Settings) -> Result<Delegation, ConfigError> {
    let text = |name, usual: &str| Ok(settings.text(name)?.unwrap_or_else(|| usual.to_owned()));
    let url = text("CLAUDE_TOOLS_DEEPSEEK_URL", URL)?;
    if !permitted(&url) {
        return Err(ConfigError::Value {
            name: "CLAUDE_TOOLS_DEEPSEEK_URL".to_owned(),
            value: url,
            expected: "https://HOST[:PORT][/PATH] without a user, or http:// at a literal loopback address with a port",
        });
    }
    let bounds = (1, SUBSESSION_MAX.as_secs());
    let seconds =
        settings.whole("CLAUDE_TOOLS_DEEPSEEK_SECONDS", bounds, "a whole number from 1 to 43200 (12 h)")?;
    let turns =
        settings.whole("CLAUDE_TOOLS_DEEPSEEK_TURNS", (1, 10_000), "a whole number from 1 to 10000")?;
    Ok(Delegation {
        program: settings.path("CLAUDE_TOOLS_DEEPSEEK_BIN")?.unwrap_or_default(),
        url: url.trim_end_matches('/').to_owned(),
        key_file: settings.path("CLAUDE_TOOLS_DEEPSEEK_KEY_FILE")?,
        ca_file: authorities(settings)?,
        flash: text("CLAUDE_TOOLS_DEEPSEEK_FLASH_MODEL", FLASH)?,
        pro: text("CLAUDE_TOOLS_DEEPSEEK_PRO_MODEL", PRO)?,
        seconds: seconds.unwrap_or(SUBSESSION.as_secs()),
        turns: turns.and_then(|turns| u32::try_from(turns).ok()).unwrap_or(SUBSESSION_TURNS),
    })
}

/// Whose certificates are believed instead of those that the system's list believes: the owner's own setting, or else the
/// variable by which the other programs of the machine are told the same.
fn authorities(settings: &Settings) -> Result<Option<PathBuf>, ConfigError> {
    let own = settings.path("CLAUDE_TOOLS_DEEPSEEK_CA_FILE")?;
    let usual = settings.environment.raw("SSL_CERT_FILE").and_then(|path| std::path::absolute(path).ok());
    Ok(own.or(usual))
}

/// The key never travels in the clear beyond this machine.
fn permitted(url: &str) -> bool {
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '@' | '?' | '#' | '\\');
    if !url.chars().all(plain) {
        return false;
    }
    if let Some(rest) = url.strip_prefix("https://") {
        return !rest.is_empty() && !rest.starts_with(['/', ':']);
    }
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    authority.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_leaves_this_machine_behind_tls_alone() {
        for url in [URL, "https://h", "https://h:1/a/b", "http://127.0.0.1:1", "http://[::1]:2/x"] {
            assert!(permitted(url), "{url}");
        }
        for url in [
            "",
            "h",
            "https://",
            "https:///x",
            "https://u:p@h",
            "https://h?x",
            "http://h",
            "http://localhost:1",
            "http://127.0.0.1.nip.io:1",
            "http://127.0.0.1",
            "http://10.0.0.1:1",
            "http://[::ffff:127.0.0.1]:1",
            "ftp://127.0.0.1:1",
            "HTTPS://h",
            "https://h x",
        ] {
            assert!(!permitted(url), "{url}");
        }
    }
}
