//! A failed step of building a cage, with its name.

use std::io;

use super::wire::Report;
use crate::error::Feature;

/// Which step failed, on what, and the system's answer.
#[derive(Debug)]
pub(super) struct StepFailed {
    pub(super) step: String,
    pub(super) source: io::Error,
    /// The piece of the system whose absence explains it.
    pub(super) feature: Option<Feature>,
}

pub(super) type Step<T> = Result<T, StepFailed>;

/// Names the step that a result belongs to.
pub(super) trait Named<T> {
    /// A step that should work on every machine.
    fn step(self, name: impl FnOnce() -> String) -> Step<T>;
    /// A step that a machine may lack or forbid.
    fn needs(self, feature: Feature, name: impl FnOnce() -> String) -> Step<T>;
}

impl<T, E: Into<io::Error>> Named<T> for Result<T, E> {
    fn step(self, name: impl FnOnce() -> String) -> Step<T> {
        self.map_err(|error| StepFailed { step: name(), source: error.into(), feature: None })
    }

    fn needs(self, feature: Feature, name: impl FnOnce() -> String) -> Step<T> {
        self.map_err(|error| StepFailed { step: name(), source: error.into(), feature: Some(feature) })
    }
}

impl From<StepFailed> for Report {
    fn from(failed: StepFailed) -> Report {
        let errno = failed.source.raw_os_error().unwrap_or(nix::libc::EINVAL);
        Report::Failed { step: failed.step, errno, feature: failed.feature }
    }
}
