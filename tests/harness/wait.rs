//! Waiting for a condition with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Between two looks. Short enough to cost nothing, long enough to leave the machine to the program under test.
const LOOK: Duration = Duration::from_millis(20);

/// What `look` finds, as soon as it finds something.
///
/// # Panics
/// With `what` when nothing is found within `limit`.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {limit:?} in vain for this: {what}");
        thread::sleep(LOOK);
    }
}
