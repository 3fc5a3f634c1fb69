//! Where the programs under test are.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository").to_owned()
}

/// A built program of the gateway: from `GATEWAY_BIN_DIR`, or else from the folder that this test was built into.
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let folder = env::var_os("GATEWAY_BIN_DIR").map_or_else(own_profile, PathBuf::from);
    let program = folder.join(name);
    assert!(
        program.is_file(),
        "{} is not built; run `cargo build --workspace --bins` first, or the whole of `scripts/test`",
        program.display()
    );
    program
}

/// A built example of this package.
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let program = own_profile().join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is not built; run `cargo build -p tests --examples` first",
        program.display()
    );
    program
}

/// `target/<profile>`, two folders above `deps/promises-…` and `examples/…`.
fn own_profile() -> PathBuf {
    let own = env::current_exe().expect("a running program has a path");
    own.ancestors().nth(2).expect("target/<profile>/<kind>/<program>").to_owned()
}

/// The real Claude Code: `CLAUDE_BIN`, or else the pinned one, fetched when it is missing.
///
/// # Panics
/// Where it can't be fetched.
#[must_use]
pub fn claude_code() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        if let Some(given) = env::var_os("CLAUDE_BIN") {
            return given.into();
        }
        let script = repository().join("scripts/claude-code");
        let output = Command::new(&script).output().expect("scripts/claude-code starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("a path of UTF-8");
        PathBuf::from(text.lines().last().expect("scripts/claude-code prints a path"))
    })
}
