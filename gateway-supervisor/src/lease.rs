//! When a session's lease ends: by the wall clock, which keeps going while the machine sleeps.
//!
//! Invariant: what is recorded lags behind what holds by at most a quarter of the lease.

use std::time::Duration;

use protocol::timestamp::Timestamp;

/// Shortest and longest time between two looks at the clock.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// The end of a lease, with the renewals that are not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseClock {
    ends: Timestamp,
    recorded: Timestamp,
    length: Duration,
}

impl LeaseClock {
    /// The clock of a lease that holds for `length` at a time and is recorded to end at `recorded`.
    pub(crate) const fn new(recorded: Timestamp, length: Duration) -> Self {
        Self { ends: recorded, recorded, length }
    }

    /// When the lease ends.
    pub(crate) const fn ends(&self) -> Timestamp {
        self.ends
    }

    /// Whether it has ended.
    pub(crate) fn over(&self, now: Timestamp) -> bool {
        now >= self.ends
    }

    /// Renews it. Returns the end to record, where that is due.
    pub(crate) fn renew(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.ends = self.ends.max(now.plus(self.length));
        (self.ends.since(self.recorded) >= self.length / 4).then_some(self.ends)
    }

    /// Takes down what the record says now.
    pub(crate) fn set_recorded(&mut self, recorded: Timestamp) {
        self.recorded = recorded;
        self.ends = self.ends.max(recorded);
    }

    /// How long until the next look at the clock: often enough to end on time and to renew what a waiting call keeps.
    pub(crate) fn look(&self, now: Timestamp) -> Duration {
        let left = self.ends.since(now);
        left.min(self.length / 8).clamp(LOOK.0, LOOK.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_holds_at_once_and_is_recorded_every_quarter() {
        let length = Duration::from_millis(1000);
        let mut clock = LeaseClock::new(Timestamp(1000), length);
        assert_eq!(clock.renew(Timestamp(100)), None);
        assert_eq!(clock.ends(), Timestamp(1100));
        assert_eq!(clock.renew(Timestamp(250)), Some(Timestamp(1250)));
        clock.set_recorded(Timestamp(1250));
        assert_eq!(clock.renew(Timestamp(251)), None);
        assert!(!clock.over(Timestamp(1250)) && clock.over(Timestamp(1251)));
        // A clock that was set back shortens nothing.
        assert_eq!(clock.renew(Timestamp(1)), None);
        assert_eq!(clock.ends(), Timestamp(1251));
    }

    #[test]
    fn the_clock_is_looked_at_before_the_end_and_at_least_every_minute() {
        let clock = LeaseClock::new(Timestamp(604_800_000), Duration::from_secs(604_800));
        assert_eq!(clock.look(Timestamp(0)), LOOK.1);
        let clock = LeaseClock::new(Timestamp(3_000), Duration::from_secs(3));
        assert_eq!(clock.look(Timestamp(0)), Duration::from_millis(375));
        assert_eq!(clock.look(Timestamp(9_000)), LOOK.0);
    }
}
