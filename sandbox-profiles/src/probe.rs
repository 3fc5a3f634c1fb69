//! What this machine can do, told before a session needs it.

use serde::{Deserialize, Serialize};
use std::path::Path;

use crate::{
    error::{Feature, WallError},
    launch::{ClaudeCage, CommandCages, Helper},
    os,
    spec::{AbsolutePath, Network, SandboxSpec},
};

/// What was found. As JSON: `{"verdict": …, "landlock_abi": 7, "single_covers": […]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Whether sessions can start here.
    pub verdict: Verdict,
    /// Linux: the kernel's Landlock ABI, if any.
    pub landlock_abi: Option<u32>,
    /// Promises that one layer holds here where a newer system has two.
    pub single_covers: Vec<String>,
}

/// Whether the walls stand here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "walls", rename_all = "snake_case")]
#[must_use]
pub enum Verdict {
    /// A cage with every wall was built.
    Stand,
    /// They can't be built.
    Refused {
        /// The missing piece, where it is a known one.
        feature: Option<Feature>,
        /// What was observed.
        found: String,
        /// The setting or line that mends it.
        mend: String,
    },
}

/// Builds a command's cage around nothing and the network of Claude Code's, with `scratch` as its writable folder, and tells how far it came.
#[must_use]
pub fn probe(helper: &Helper, scratch: &Path) -> Probe {
    let built = AbsolutePath::new(scratch)
        .map_err(WallError::from)
        .and_then(|scratch| CommandCages::open(helper)?.rehearse(&SandboxSpec::command(scratch, Vec::new())))
        .and_then(|()| ClaudeCage::open(helper, Network::LoopbackListener { port: 0 }).map(drop));
    let verdict = match built {
        Ok(()) => Verdict::Stand,
        Err(WallError::Unsupported { feature, found, mend }) => {
            Verdict::Refused { feature: Some(feature), found, mend }
        }
        Err(other) => {
            let mend = "free what the message names and try again".to_owned();
            Verdict::Refused { feature: None, found: other.to_string(), mend }
        }
    };
    Probe { verdict, landlock_abi: os::landlock_abi(), single_covers: os::second_covers() }
}
