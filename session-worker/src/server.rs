//! The one HTTP port of a session: bridge and executor behind it.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;

/// Body of every answer on the session's port.
#[expect(dead_code, reason = "the bridge and the executor that answer with it are not there yet")]
pub(crate) type Body = BoxBody<Bytes, Infallible>;
