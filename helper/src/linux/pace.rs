//! How much of a processor the looks may take.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time of this process: on a busy host it is not to look less often for having waited for its turn.
pub(crate) fn time_spent() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// How long to leave alone what was begun at `began`: looking must not take more than a fifth of a processor.
pub(crate) fn rest_after(began: Duration) -> Duration {
    time_spent().saturating_sub(began).saturating_mul(4)
}

/// The same where a limit is near: half a processor.
pub(crate) fn short_rest_after(began: Duration) -> Duration {
    time_spent().saturating_sub(began)
}
