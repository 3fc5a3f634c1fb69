//! What is kept of an action once a later reply is there.

use std::sync::Arc;

use protocol::receipt::Receipt;

use super::{ActionRecord, Progress};
use crate::boundary;

/// What is kept of the result of an action once a later reply is there: enough to recognise it in `recovered_actions`.
const EARLIER_RESULT_BYTES: usize = 1024;

/// The action with its result shortened.
pub(super) fn shortened(mut action: ActionRecord) -> ActionRecord {
    if let Progress::Done(receipt) = &mut action.progress
        && receipt.content.len() > EARLIER_RESULT_BYTES
    {
        let mut short = Receipt::clone(receipt);
        let kept = boundary::floor(&short.content, EARLIER_RESULT_BYTES);
        let cut = short.content.len() - kept;
        short.content.truncate(kept);
        short.content.push_str(&format!("… ({cut} more bytes)"));
        *receipt = Arc::new(short);
    }
    action
}
