//! Ends the launch if the supervisor dies before init can notice that. Bubblewrap's own child waits for bubblewrap then,
//! and would wait for ever if that has died with the supervisor.

use super::STEP;
use crate::error::{Context, Result};
use crate::linux::sys::{self, Forked};
use nix::libc;
use nix::unistd::{Pid, dup2_stdin, setpgid};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsFd;

/// A process that leads a group, which bubblewrap and all that it starts belong to. It is there as long as they are set up.
pub(super) struct Guard {
    pub(super) pid: libc::pid_t,
    /// The supervisor's alone: its end is the supervisor's.
    _lifeline: PipeWriter,
}

impl Guard {
    pub(super) fn start() -> Result<Self> {
        let (end, lifeline) = io::pipe().context(STEP, "pipe")?;
        match sys::fork().context(STEP, "fork")? {
            Forked::Child => {
                drop(lifeline);
                keep_watch(&end)
            }
            Forked::Parent { pid, .. } => {
                let guard = Guard { pid, _lifeline: lifeline };
                // Here too, so that there is a group whoever comes first.
                guard.admit(pid).context(STEP, "setpgid")?;
                Ok(guard)
            }
        }
    }

    /// Makes a process one of the group; 0 is the calling one.
    pub(super) fn admit(&self, pid: libc::pid_t) -> io::Result<()> {
        Ok(setpgid(Pid::from_raw(pid), Pid::from_raw(self.pid))?)
    }

    /// Everything that the launch has started by now.
    pub(super) fn end_all(self) {
        drop(sys::signal_group(self.pid, libc::SIGKILL));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The number is its own until it is waited for.
        let _ = sys::open_pidfd(self.pid).map(|own| sys::signal_process(own.as_fd(), libc::SIGKILL));
        drop(sys::wait_with_usage(self.pid));
    }
}

/// Holds the one descriptor, and takes nothing else of the supervisor's along.
fn keep_watch(end: &PipeReader) -> ! {
    let own = std::process::id().cast_signed();
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    let only = dup2_stdin(end).map_err(io::Error::from).and_then(|()| sys::close_range(1, i32::MAX));
    if only.is_ok() {
        // Nobody writes.
        drop(io::stdin().read(&mut [0]));
    }
    drop(sys::signal_group(own, libc::SIGKILL));
    std::process::exit(crate::exit_code::FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, poll};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn what_was_started_ends_with_the_supervisor() {
        let mut guard = Guard::start().unwrap();
        let (mut left, kept) = io::pipe().unwrap();
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").process_group(guard.pid).stdin(Stdio::null()).stdout(kept);
        let mut child = sleep.spawn().unwrap();
        drop(sleep);
        // The other end of nothing; what was there is closed, as by the end of this process.
        guard._lifeline = io::pipe().unwrap().1;
        // The last writer's end is the end of the pipe.
        let mut ready = [PollFd::new(left.as_fd(), PollFlags::POLLIN)];
        assert_eq!((poll(&mut ready, 30_000u16).unwrap(), left.read(&mut [0]).unwrap()), (1, 0));
        assert!(!child.wait().unwrap().success());
    }
}
