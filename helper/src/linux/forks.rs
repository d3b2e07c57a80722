//! Counts the making of processes and threads, and says whether it ran into the limit.
//!
//! A fork bomb that gives up at the limit is over in milliseconds, and looking from time to time can miss it. So the
//! kernel asks the supervisor before each one is made (`SECCOMP_RET_USER_NOTIF`, Linux 5.0) and the supervisor says "go
//! on" (`SECCOMP_USER_NOTIF_FLAG_CONTINUE`, Linux 5.5). It decides nothing: what may be made is the kernel's own limit.

use super::sys::{self, Instruction};
use nix::libc;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a fork that was let through may go unseen. The kernel counts it toward the limit from its start, but it is
/// in `/proc` only at its end, and on a busy host much can come between.
const UNSEEN: Duration = Duration::from_millis(50);

/// In the process that becomes the command, before it does: from here on the supervisor is asked.
pub(crate) fn ask_supervisor() -> io::Result<OwnedFd> {
    sys::load_notifying_filter(&filter())
}

/// The calls that make processes or threads. `clone3` is answered by the main filter.
fn filter() -> Vec<Instruction> {
    // Codes of linux/bpf_common.h, actions of linux/seccomp.h. The prelude of the main filter has checked the
    // architecture.
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const USER_NOTIF: u32 = 0x7fc0_0000;
    const ALLOW: u32 = 0x7fff_0000;
    #[cfg(target_arch = "x86_64")]
    const CALLS: [libc::c_long; 3] = [libc::SYS_clone, libc::SYS_fork, libc::SYS_vfork];
    #[cfg(not(target_arch = "x86_64"))]
    const CALLS: [libc::c_long; 1] = [libc::SYS_clone];

    let mut filter = vec![(LOAD_WORD, 0, 0, 0)];
    for call in CALLS {
        filter.extend([(JUMP_IF_EQUAL, 0, 1, call as u32), (RETURN, 0, 0, USER_NOTIF)]);
    }
    filter.push((RETURN, 0, 0, ALLOW));
    filter
}

/// The supervisor's side.
pub(crate) struct Forks {
    listener: OwnedFd,
    /// All that were asked for.
    pub(crate) count: u64,
    /// Those asked for while no more were allowed.
    pub(crate) at_limit: u64,
    /// When each of the latest was let through.
    let_through: VecDeque<Instant>,
    /// Whoever asks has to wait until it is known how many there are.
    held: bool,
}

impl Forks {
    pub(crate) fn new(listener: OwnedFd) -> Self {
        Forks { listener, count: 0, at_limit: 0, let_through: VecDeque::new(), held: false }
    }

    /// Readable when somebody waits for an answer that can be given now.
    pub(crate) fn listener(&self) -> Option<&OwnedFd> {
        Some(&self.listener).filter(|_| !self.held)
    }

    /// Near the limit those let through have to be seen first: if the next one failed for them, nobody would know that
    /// it was asked for at the limit. `alive` are the processes and threads of the run at this moment.
    pub(crate) fn look(&mut self, alive: u64, limit: u64) {
        while self.let_through.front().is_some_and(|since| since.elapsed() > UNSEEN) {
            self.let_through.pop_front();
        }
        self.held = alive < limit && alive + self.let_through.len() as u64 >= limit;
    }

    /// Answers one that waits.
    pub(crate) fn answer(&mut self, alive: u64, limit: u64) {
        if self.held {
            return;
        }
        // Whoever asked may have been killed meanwhile.
        let Ok(request) = sys::receive_notification(self.listener.as_fd()) else { return };
        self.count += 1;
        self.at_limit += u64::from(alive >= limit);
        self.let_through.push_back(Instant::now());
        drop(sys::continue_notified(self.listener.as_fd(), request));
    }
}
