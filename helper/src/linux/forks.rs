//! Counts the making of processes and threads, and says whether it ran into the limit.
//!
//! A fork bomb that gives up at the limit is over in milliseconds, and looking from time to time can miss it. So the
//! kernel asks the supervisor before each one is made ([`super::asked`]) and the supervisor says "go
//! on" (`SECCOMP_USER_NOTIF_FLAG_CONTINUE`, Linux 5.5). It decides nothing: what may be made is the kernel's own limit.

use nix::libc;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a fork that was let through may go unseen. The kernel counts it toward the limit from its start, but it is
/// in `/proc` only at its end, and on a busy host much can come between.
const UNSEEN: Duration = Duration::from_millis(50);

/// The calls that make processes or threads. `clone3` is answered by the main filter.
#[cfg(target_arch = "x86_64")]
pub(super) const CALLS: [libc::c_long; 3] = [libc::SYS_clone, libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const CALLS: [libc::c_long; 1] = [libc::SYS_clone];

/// The supervisor's side.
#[derive(Default)]
pub(crate) struct Forks {
    /// All that were asked for.
    pub(crate) count: u64,
    /// Those asked for while no more were allowed.
    pub(crate) at_limit: u64,
    /// When each of the latest was let through.
    let_through: VecDeque<Instant>,
    /// Whoever asks has to wait until it is known how many there are.
    pub(super) held: bool,
}

impl Forks {
    /// Near the limit those let through have to be seen first: if the next one failed for them, nobody would know that
    /// it was asked for at the limit. `alive` are the processes and threads of the run at this moment.
    pub(crate) fn look(&mut self, alive: u64, limit: u64) {
        while self.let_through.front().is_some_and(|since| since.elapsed() > UNSEEN) {
            self.let_through.pop_front();
        }
        self.held = alive < limit && alive.saturating_add(self.let_through.len() as u64) >= limit;
    }

    /// The call of one that was asked about goes on.
    pub(super) fn let_one_through(&mut self, alive: u64, limit: u64) {
        self.count = self.count.saturating_add(1);
        self.at_limit = self.at_limit.saturating_add(u64::from(alive >= limit));
        self.let_through.push_back(Instant::now());
    }
}
