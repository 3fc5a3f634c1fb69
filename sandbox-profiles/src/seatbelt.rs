//! From a description to Seatbelt: the profile is a file of this crate, paths are parameters beside it.
//!
//! Invariant: no path becomes part of the profile's text; only names of parameters, made here, do.
//! Invariant: a description that the profiles don't cover is refused.

#[cfg(test)]
mod evaluator;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    error::{Feature, WallError},
    spec::{AbsolutePath, Execution, Network, Readable, SandboxSpec, Signals},
};

const COMMAND: &str = include_str!("../profiles/command.sb");
const CLAUDE: &str = include_str!("../profiles/claude.sb");

/// Where the data volume is mounted besides `/`: a rule for a path is given for both names.
const DATA_VOLUME: &str = "/System/Volumes/Data";

/// A filter that matches nothing, for an empty list: the folder exists on no system.
const NOTHING: &str = "/nonexistent/no-such-path";

/// A profile and its parameters, as `sandbox-exec` takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seatbelt {
    pub(crate) text: String,
    pub(crate) parameters: Vec<(String, OsString)>,
}

impl Seatbelt {
    /// The arguments of `sandbox-exec` before the program's own.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from("-p"), OsString::from(&self.text)];
        for (name, value) in &self.parameters {
            let mut definition = OsString::from(format!("-D{name}="));
            definition.push(value);
            arguments.push(definition);
        }
        arguments.push("--".into());
        arguments
    }

    fn define(&mut self, name: String, value: impl Into<OsString>) {
        self.parameters.push((name, value.into()));
    }

    /// Replaces `@NAME@` by one filter per path.
    fn expand(&mut self, name: &str, filter: &str, paths: &[PathBuf]) {
        let nothing = [PathBuf::from(NOTHING)];
        let paths = if paths.is_empty() { &nothing } else { paths };
        let mut filters = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            let parameter = format!("{name}_{index}");
            filters.push(format!("({filter} (param \"{parameter}\"))"));
            self.define(parameter, path.as_os_str());
        }
        self.text = self.text.replace(&format!("@{name}@"), &filters.join("\n  "));
    }
}

/// Renders a description for `program`, which may connect to `port`.
///
/// # Errors
/// [`WallError::Unsupported`] for a combination that neither profile covers.
pub(crate) fn render(spec: &SandboxSpec, program: &Path, port: Option<u16>) -> Result<Seatbelt, WallError> {
    let [writable] = spec.writable.as_slice() else {
        return Err(refused("it has other than one writable folder"));
    };
    let hidden = both_names(spec.hidden().map(AbsolutePath::as_path));
    let mut rendered = Seatbelt { text: String::new(), parameters: Vec::new() };
    rendered.define("WRITABLE_0".into(), writable.as_os_str());
    match (&spec.readable, spec.network, spec.signals, &spec.execution) {
        (Readable::Everything, Network::Nothing, Signals::SameCage, Execution::AnythingBut(_)) => {
            rendered.text = COMMAND.into();
        }
        (
            Readable::Only(readable),
            Network::LoopbackListener { .. },
            Signals::Itself,
            Execution::OnlyItself(libraries),
        ) => {
            let port = port.ok_or_else(|| refused("its port is not known"))?;
            rendered.text = CLAUDE.into();
            let listed = readable.iter().chain(libraries).map(AbsolutePath::as_path);
            let readable = both_names(listed);
            let above: BTreeSet<&Path> = readable
                .iter()
                .map(PathBuf::as_path)
                .chain([program, writable.as_path()])
                .flat_map(|path| path.ancestors().skip(1))
                .collect();
            let above: Vec<PathBuf> = above.into_iter().map(Path::to_path_buf).collect();
            rendered.define("PROGRAM".into(), program.as_os_str());
            rendered.define("PORT".into(), port.to_string());
            rendered.expand("READABLE", "subpath", &readable);
            rendered.expand("ABOVE", "literal", &above);
        }
        (Readable::Everything | Readable::Only(_), _, _, _) => {
            return Err(refused("it mixes the rules of a command with those of Claude Code"));
        }
    }
    rendered.expand("HIDDEN", "subpath", &hidden);
    Ok(rendered)
}

/// Each path, and the same path by way of the data volume.
fn both_names<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for path in paths {
        names.push(path.to_path_buf());
        if let Ok(relative) = path.strip_prefix("/")
            && !path.starts_with("/System")
        {
            names.push(Path::new(DATA_VOLUME).join(relative));
        }
    }
    names
}

fn refused(why: &str) -> WallError {
    WallError::Unsupported {
        feature: Feature::Seatbelt,
        found: format!("no profile covers this description: {why}"),
        mend: "describe a command's cage or Claude Code's".into(),
    }
}
