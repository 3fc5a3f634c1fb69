//! The right to drive a session, and until when it holds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{id::LeaseId, timestamp::Timestamp};

/// A granted lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its id; the newest granted one is the only valid one.
    pub lease_id: LeaseId,
    /// When it ends unless a call renews it.
    pub expires_at: Timestamp,
}

impl Lease {
    /// A new lease that holds for `length` from `now`.
    #[must_use]
    pub fn grant(now: Timestamp, length: Duration) -> Self {
        Self { lease_id: LeaseId::mint(), expires_at: now.plus(length) }
    }

    /// Whether it has run out at `now`.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}
