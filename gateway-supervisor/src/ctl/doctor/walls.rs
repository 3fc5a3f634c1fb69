//! Whether the walls around Claude Code and commands stand on this machine. The worker builds them, so the worker tells.
#![expect(clippy::disallowed_methods, reason = "removes the folder that it made for the trial")]

use std::{
    env, fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Finding, program::output};

const NAME: &str = "walls";

/// Has the worker that stands beside this program build a cage around nothing.
pub(super) fn stand() -> Finding {
    let worker = match env::current_exe() {
        Ok(own) => own.with_file_name("session-worker"),
        Err(error) => return untold(&error.to_string()),
    };
    match folder().and_then(|folder| {
        let said = output(&worker, &["walls".as_ref(), folder.as_os_str()]);
        let _ = fs::remove_dir_all(&folder);
        said
    }) {
        Ok(said) => judge(&said),
        Err(error) => untold(&format!("{} could not be asked: {error}", worker.display())),
    }
}

/// An empty folder of this user's alone.
fn folder() -> io::Result<PathBuf> {
    let folder = Path::new("/tmp").join(format!("gatewayctl-walls-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

fn untold(why: &str) -> Finding {
    Finding::bad(NAME, why, "build all programs into one folder: cargo build --release --workspace --bins")
}

fn judge(said: &str) -> Finding {
    let Ok(found) = serde_json::from_str::<Value>(said) else {
        return untold("session-worker said nothing about them");
    };
    let verdict = &found["verdict"];
    if verdict["walls"] == "stand" {
        return Finding::good(NAME, "Claude Code and commands run in cages that stand on this machine");
    }
    let text = |field: &str| verdict[field].as_str().unwrap_or("not told").to_owned();
    Finding::bad(NAME, format!("no session can start: {}", text("found")), text("mend"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::doctor::Verdict;

    #[test]
    fn only_walls_that_stand_are_good() {
        assert_eq!(judge(r#"{"verdict":{"walls":"stand"}}"#).verdict, Verdict::Good);
        let refused = judge(
            r#"{"verdict":{"walls":"refused","feature":null,"found":"no namespaces","mend":"sysctl"}}"#,
        );
        assert_eq!((refused.verdict, refused.mend.as_deref()), (Verdict::Bad, Some("sysctl")));
        for other in ["", "{}", "null", "[]"] {
            assert_eq!(judge(other).verdict, Verdict::Bad, "{other}");
        }
    }
}
