//! The log: on stderr, one line an event, with ids and without secrets.

use std::io;

use tracing_subscriber::EnvFilter;

/// What is logged: what an owner needs to follow what happened, and of the libraries only trouble.
const LEVEL: &str = "warn,gateway_supervisor=info";

/// Starts logging. A second call changes nothing.
pub fn start() {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(LEVEL))
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        .finish();
    // Somebody else's subscriber is as good.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
