//! What commands get of the supervisor's environment: where programs are, the language, the time zone, and where the user's
//! toolchains are installed.
//!
//! Invariant: a variable passes only if it stands here, and a toolchain's only if it is a list of absolute paths: no secret
//! that the supervisor was started with reaches a command.

use std::path::{Path, PathBuf};

use super::Environment;

/// What passes as it is.
const PLAIN: &[&str] = &["PATH", "LANG", "LC_ALL", "TZ"];

/// What says where a toolchain is, and where it stands below the account's home when nothing says so.
const TOOLCHAINS: &[(&str, &[&str])] = &[
    ("CARGO_HOME", &[".cargo"]),
    ("RUSTUP_HOME", &[".rustup"]),
    ("PYENV_ROOT", &[".pyenv"]),
    ("PYTHONUSERBASE", &[".local"]),
    ("NVM_DIR", &[".nvm"]),
    ("VOLTA_HOME", &[".volta"]),
    ("FNM_DIR", &[".local/share/fnm"]),
    ("BUN_INSTALL", &[".bun"]),
    ("DENO_DIR", &[".cache/deno"]),
    ("GOPATH", &["go"]),
    ("GOROOT", &[]),
    ("GOMODCACHE", &["go/pkg/mod"]),
    ("JAVA_HOME", &[]),
    ("MAVEN_HOME", &[]),
    ("SDKMAN_DIR", &[".sdkman"]),
    ("RBENV_ROOT", &[".rbenv"]),
    ("ASDF_DATA_DIR", &[".asdf"]),
    ("ASDF_DIR", &[]),
    ("MISE_DATA_DIR", &[".local/share/mise"]),
    ("DOTNET_ROOT", &[".dotnet"]),
    ("GHCUP_INSTALL_BASE_PREFIX", &[]),
    ("OPAMROOT", &[".opam"]),
    ("CONDA_PREFIX", &[]),
    ("VIRTUAL_ENV", &[]),
    ("GIT_CONFIG_GLOBAL", &[".gitconfig", ".config/git/config"]),
    ("SSL_CERT_FILE", &[]),
    ("SSL_CERT_DIR", &[]),
];

/// Files of a toolchain that hold credentials, wherever it is installed.
const CREDENTIALS: &[(&str, &[&str])] = &[("CARGO_HOME", &["credentials", "credentials.toml"])];

/// The variables of commands.
pub(super) fn variables(environment: &Environment, homes: &[PathBuf]) -> Vec<(String, String)> {
    let text = |name: &str| environment.raw(name).and_then(|value| value.to_str()).map(str::to_owned);
    let plain = PLAIN.iter().filter_map(|name| Some(((*name).to_owned(), text(name)?)));
    let toolchains = TOOLCHAINS.iter().filter_map(|(name, below)| {
        let named = text(name).filter(|value| is_installed(value));
        let place = named.or_else(|| found(homes, below))?;
        Some(((*name).to_owned(), place))
    });
    plain.chain(toolchains).collect()
}

/// Credentials that lie with the toolchains rather than in a home.
pub(super) fn credentials(variables: &[(String, String)]) -> Vec<PathBuf> {
    CREDENTIALS
        .iter()
        .filter_map(|(name, files)| {
            let (_, place) = variables.iter().find(|(known, _)| known == name)?;
            Some(files.iter().map(move |file| Path::new(place).join(file)))
        })
        .flatten()
        .collect()
}

/// Absolute paths of which one exists: a tool that finds nothing where it was pointed to does worse than one that looks in the
/// scratch.
fn is_installed(value: &str) -> bool {
    let paths: Vec<PathBuf> = std::env::split_paths(value).collect();
    paths.iter().all(|path| path.is_absolute()) && paths.iter().any(|path| path.exists())
}

/// The account's own home comes before `$HOME`, which may be any folder.
fn found(homes: &[PathBuf], below: &[&str]) -> Option<String> {
    let places = homes.iter().rev().flat_map(|home| below.iter().map(move |name| home.join(name)));
    places.filter(|place| place.exists()).find_map(|place| place.to_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ffi::OsString, fs};

    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Environment {
        Environment(
            pairs.iter().map(|(n, v)| (OsString::from(n), OsString::from(v))).collect::<BTreeMap<_, _>>(),
        )
    }

    #[test]
    fn toolchains_come_from_the_environment_or_the_accounts_home_and_secrets_from_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let (home, account, elsewhere) =
            (root.path().join("home"), root.path().join("account"), root.path().join("cargo"));
        for folder in [&home.join(".pyenv"), &account.join(".pyenv"), &account.join(".rustup"), &elsewhere] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(account.join(".gitconfig"), "").unwrap();
        let environment = given(&[
            ("PATH", "/usr/bin"),
            ("TZ", "Europe/Berlin"),
            ("CARGO_HOME", elsewhere.to_str().unwrap()),
            ("GOPATH", "/nonexistent/go"),
            ("JAVA_HOME", "a secret"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
        ]);
        let variables = variables(&environment, &[home, account.clone()]);
        let value = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, v)| v.as_str());
        assert_eq!(
            (value("PATH"), value("TZ"), value("LANG")),
            (Some("/usr/bin"), Some("Europe/Berlin"), None)
        );
        assert_eq!(value("CARGO_HOME"), elsewhere.to_str());
        assert_eq!(value("RUSTUP_HOME"), account.join(".rustup").to_str());
        assert_eq!(value("PYENV_ROOT"), account.join(".pyenv").to_str());
        assert_eq!(value("GIT_CONFIG_GLOBAL"), account.join(".gitconfig").to_str());
        for absent in ["GOPATH", "JAVA_HOME", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"] {
            assert_eq!(value(absent), None);
        }
        assert!(credentials(&variables).contains(&elsewhere.join("credentials.toml")));
    }
}
