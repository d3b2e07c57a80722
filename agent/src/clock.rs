//! Time, so that a test can be its master.

use std::time::Instant;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time now; never goes backwards.
    fn now(&self) -> Instant;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}
