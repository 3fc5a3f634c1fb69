//! Named points where a test can kill the process: they prove what is durable when.
//!
//! Invariant: they exist only in builds with the feature `crash-points`, which an optimised build refuses.

#[cfg(all(feature = "crash-points", not(debug_assertions)))]
compile_error!(
    "crash points are for tests: build without the feature `crash-points`, or without optimisation"
);

/// Dies here where the environment says so; does nothing in any build that is not for such tests.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub(crate) const fn point(_name: &str) {}

#[cfg(feature = "crash-points")]
pub(crate) use protocol::crash::point;
