//! Times by which something has to be done.

use std::time::{Duration, Instant};

/// `time` from `begin` on. What no clock will ever show has passed: rather too early than never.
pub(crate) fn after(begin: Instant, time: Duration) -> Instant {
    begin.checked_add(time).unwrap_or(begin)
}
