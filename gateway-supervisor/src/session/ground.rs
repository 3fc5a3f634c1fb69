//! Where a session may be allowed to write: what the directory is, judged before the session exists (P1).
//!
//! Whether the directory is protected is the worker's to say: it alone knows that list.

use std::path::Path;

use protocol::{
    failure::{ErrorCode, Failure},
    wire::ground::{Ground, GroundQuestion},
};

use super::refusal;
use crate::{config::Config, supervisor::house::House, worker};

/// Whether a session may write in the canonical directory `root`.
///
/// # Errors
/// Says which directory it is that no session writes in.
pub(crate) fn writable(root: &Path, config: &Config) -> Result<(), Failure> {
    let refused = |why: &str| Err(refusal::argument("working_directory", why));
    if root.parent().is_none() {
        return refused("a session that writes does not work in `/`; pass a project's directory");
    }
    if config.homes.iter().any(|home| resolved(home, |home| home.starts_with(root))) {
        return refused(
            "a session that writes does not work in the home directory itself; pass a project's directory",
        );
    }
    for own in [&config.state, &config.work] {
        if resolved(own, |own| root.starts_with(own) || own.starts_with(root)) {
            return refused("it holds or belongs to the gateway's own folders; pass a project's directory");
        }
    }
    let inside_git = root.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"));
    if inside_git {
        return refused("it is inside a .git folder; pass the repository's directory");
    }
    Ok(())
}

/// Whether a session may write in `root`, or in a copy of what it holds. Asks the worker's program.
///
/// # Errors
/// Where the directory is protected, or nobody can tell.
pub(crate) fn unprotected(root: &Path, house: &House) -> Result<(), Failure> {
    let protected = house.protected(house.config.delegation.key_file.clone());
    let question = GroundQuestion { protected, directory: root.to_owned() };
    match worker::ground::ask(&house.worker, &question) {
        Ok(Ground::Open) => Ok(()),
        Ok(Ground::Protected) => Err(refusal::argument(
            "working_directory",
            "it is protected (a credential store, or what the owner named as such); pass a project's directory",
        )),
        Err(error) => {
            tracing::error!(%error, program = %house.worker.display(), "the worker's program could not be asked");
            Err(Failure::fixed(
                ErrorCode::LaunchFailed,
                "the session was not started: the worker's program could not be asked whether its directory is protected",
                "ask the owner to run gatewayctl doctor; the refused call used up no key",
            ))
        }
    }
}

/// By name and by what the name leads to.
fn resolved(path: &Path, judge: impl Fn(&Path) -> bool) -> bool {
    judge(path) || path.canonicalize().is_ok_and(|real| judge(&real))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn no_session_writes_in_a_home_in_the_gateway_or_in_a_repositorys_own_folder() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["users/me/project/.git/hooks", "users/me/.state", "users/me/.state-work", "elsewhere"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        symlink(base.join("users/me"), base.join("home")).unwrap();
        let config = Config::from_environment(BTreeMap::from([
            ("HOME".into(), base.join("home").into()),
            ("CLAUDE_TOOLS_STATE_DIR".into(), base.join("users/me/.state").into()),
        ]))
        .unwrap();
        for refused in [
            "/",
            "users",
            "users/me",
            "users/me/.state",
            "users/me/.state-work",
            "users/me/project/.git",
            "users/me/project/.git/hooks",
        ] {
            let failure = writable(&base.join(refused), &config).unwrap_err();
            assert_eq!(failure.code, protocol::failure::ErrorCode::InvalidArgument, "{refused}");
        }
        for fine in ["users/me/project", "elsewhere"] {
            assert_eq!(writable(&base.join(fine), &config), Ok(()), "{fine}");
        }
    }
}
