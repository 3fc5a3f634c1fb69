//! The one HTTP port of a session: bridge and executor behind it.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;

/// Body of every answer on the session's port.
pub(crate) type Body = BoxBody<Bytes, Infallible>;
