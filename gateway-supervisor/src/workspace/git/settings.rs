//! The settings that keep git from starting anything, whatever a repository's configuration says.

use std::{collections::BTreeSet, ffi::OsString, os::unix::ffi::OsStringExt};

/// What holds for every repository.
const FIXED: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", "false"),
    ("core.untrackedCache", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("diff.ignoreSubmodules", "dirty"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("sequence.editor", "false"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    // One process fills a worktree: ending it ends the filling.
    ("checkout.workers", "1"),
    // A relative one would change the source's own configuration.
    ("worktree.useRelativePaths", "false"),
    // Nothing is ever fetched, so that a partial clone can't start a transport.
    ("protocol.allow", "never"),
];

/// The settings for every repository.
pub(super) fn fixed() -> Vec<(OsString, OsString)> {
    FIXED.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

/// The settings that silence every driver among these configuration names (`git config --list --name-only -z`). Names are
/// bytes: git takes any, and compares them as they are.
pub(super) fn of_drivers(names: &[u8]) -> Vec<(OsString, OsString)> {
    let mut settings = BTreeSet::new();
    for name in names.split(|byte| *byte == 0) {
        let Some(first) = name.iter().position(|byte| *byte == b'.') else { continue };
        let Some(last) = name.iter().rposition(|byte| *byte == b'.').filter(|last| *last > first) else {
            continue;
        };
        let silenced: &[(&str, &str)] = match &name[..first] {
            b"filter" => &[("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")],
            b"diff" => &[("command", ""), ("textconv", "")],
            b"merge" => &[("driver", "false")],
            b"credential" => &[("helper", "")],
            b"hook" => &[("enabled", "false"), ("command", "true")],
            b"gpg" => &[("program", "false"), ("defaultKeyCommand", "")],
            _ => &[],
        };
        for (variable, value) in silenced {
            let key = [&name[..=last], variable.as_bytes()].concat();
            settings.insert((OsString::from_vec(key), OsString::from(*value)));
        }
    }
    settings.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_is_silenced_under_its_own_name() {
        let names = b"core.bare\0filter.a.b=c.smudge\0filter.lfs.process\0diff.Img.textconv\0remote.origin.url\0filter.\xff .clean\0filter..clean\0filter.clean\0";
        let settings = of_drivers(names);
        for (key, value) in [
            (&b"filter.a.b=c.smudge"[..], ""),
            (b"filter.a.b=c.process", ""),
            (b"filter.lfs.required", "false"),
            (b"diff.Img.textconv", ""),
            (b"diff.Img.command", ""),
            (b"filter.\xff .process", ""),
            (b"filter..smudge", ""),
        ] {
            let wanted = (OsString::from_vec(key.to_vec()), OsString::from(value));
            assert!(settings.contains(&wanted), "{wanted:?}");
        }
        let of = |section: &str| settings.iter().any(|(key, _)| key.to_string_lossy().starts_with(section));
        assert!(!of("remote") && !of("core"), "{settings:?}");
    }
}
