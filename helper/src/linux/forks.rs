//! Counts the making of processes and threads, and says whether it ran into the limit.
//!
//! A fork bomb that gives up at the limit is over in milliseconds, and looking from time to time can miss it. So the
//! kernel asks the supervisor before each one is made (`SECCOMP_RET_USER_NOTIF`, Linux 5.0) and the supervisor says "go
//! on" (`SECCOMP_USER_NOTIF_FLAG_CONTINUE`, Linux 5.5). It decides nothing: what may be made is the kernel's own limit.

use super::sys::{self, Instruction};
use nix::libc;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

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
}

impl Forks {
    pub(crate) fn new(listener: OwnedFd) -> Self {
        Forks { listener, count: 0, at_limit: 0 }
    }

    /// Readable when somebody waits for an answer.
    pub(crate) fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// Answers one that waits. `alive` are the processes and threads of the run at this moment.
    pub(crate) fn answer(&mut self, alive: u64, limit: u64) {
        // Whoever asked may have been killed meanwhile.
        let Ok(request) = sys::receive_notification(self.listener.as_fd()) else { return };
        self.count += 1;
        self.at_limit += u64::from(alive >= limit);
        drop(sys::continue_notified(self.listener.as_fd(), request));
    }
}
