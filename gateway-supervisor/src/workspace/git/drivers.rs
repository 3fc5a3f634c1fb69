//! The programs that a repository's configuration names for filters and comparisons, and the settings that silence them.

use std::collections::BTreeSet;

/// The settings that silence every driver among these configuration names (`git config --list --name-only -z`).
pub(super) fn drivers_in(names: &[u8]) -> Vec<(String, String)> {
    let mut settings = BTreeSet::new();
    for name in names.split(|byte| *byte == 0) {
        // A name that is not UTF-8 can't be overridden through a variable of ours; git itself compares bytes.
        let name = String::from_utf8_lossy(name);
        let Some((section, rest)) = name.split_once('.') else { continue };
        let Some((driver, _)) = rest.rsplit_once('.') else { continue };
        let silenced: &[(&str, &str)] = match section {
            "filter" => &[("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")],
            "diff" => &[("command", ""), ("textconv", "")],
            "merge" => &[("driver", "false")],
            "credential" => &[("helper", "")],
            _ => &[],
        };
        settings.extend(
            silenced
                .iter()
                .map(|(variable, value)| (format!("{section}.{driver}.{variable}"), (*value).to_owned())),
        );
    }
    settings.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_is_silenced_under_its_own_name() {
        let names =
            b"core.bare\0filter.a.b=c.smudge\0filter.lfs.process\0diff.Img.textconv\0remote.origin.url\0";
        let settings = drivers_in(names);
        for (key, value) in [
            ("filter.a.b=c.smudge", ""),
            ("filter.a.b=c.process", ""),
            ("filter.lfs.required", "false"),
            ("diff.Img.textconv", ""),
            ("diff.Img.command", ""),
        ] {
            assert!(settings.contains(&(key.to_owned(), value.to_owned())), "{key}");
        }
        assert!(!settings.iter().any(|(key, _)| key.starts_with("remote") || key.starts_with("core")));
    }
}
