//! Reading a request's body within its bounds.
//!
//! Invariant: no more of a body is kept than its bound, and no body is waited for longer than its time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::refusal::Refusal;

/// How much of a refused request's body is kept, to find its id in.
const BEGIN_BYTES: usize = 16 * 1024;

/// How much of a refused body is read to its end before the answer: a client that is still sending when the connection closes loses
/// the answer. Twelve bodies of the allowed size; beyond that the client has to bear it.
const SKIM_BYTES: usize = 60 * 1024 * 1024;

/// A body that is not taken.
pub(super) struct NotTaken {
    /// Why.
    pub(super) refusal: Refusal,
    /// Its begin.
    pub(super) begin: Bytes,
}

/// Reads a body of at most `most` bytes.
///
/// # Errors
/// Where it is larger, too slow, or ends early.
pub(super) async fn take(mut body: Incoming, most: usize, time: Duration) -> Result<Bytes, NotTaken> {
    let mut kept = BytesMut::new();
    let end = match timeout(time, collect(&mut body, &mut kept, most)).await {
        Ok(end) => end,
        Err(_) => End::Slow,
    };
    let refusal = match end {
        End::Whole => return Ok(kept.freeze()),
        End::TooLarge => {
            skim(body, time).await;
            Refusal::http(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is larger than {most} bytes; send a shorter text or fewer tool calls"),
            )
        }
        End::Slow => Refusal::http(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not arrive within {} s", time.as_secs()),
        ),
        End::Cut => Refusal::http(StatusCode::BAD_REQUEST, "the body ended before its announced length"),
    };
    kept.truncate(BEGIN_BYTES);
    Err(NotTaken { refusal, begin: kept.freeze() })
}

/// Reads a refused request's body away and gives its begin.
pub(super) async fn skim(mut body: Incoming, time: Duration) -> Bytes {
    let mut begin = BytesMut::new();
    // Whatever ends it, the begin is what it is.
    let _ = timeout(time, async {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            seen += data.len();
            if seen > SKIM_BYTES {
                return;
            }
            let room = BEGIN_BYTES.saturating_sub(begin.len());
            begin.extend_from_slice(&data[..data.len().min(room)]);
        }
    })
    .await;
    begin.freeze()
}

enum End {
    Whole,
    TooLarge,
    Slow,
    Cut,
}

async fn collect(body: &mut Incoming, kept: &mut BytesMut, most: usize) -> End {
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return End::Cut };
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > most.saturating_sub(kept.len()) {
            let room = BEGIN_BYTES.saturating_sub(kept.len()).min(data.len());
            kept.extend_from_slice(&data[..room]);
            return End::TooLarge;
        }
        kept.extend_from_slice(&data);
    }
    End::Whole
}
