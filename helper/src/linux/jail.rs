//! A jail, as the supervisor knows it.

use super::asked::Topics;
use super::message::Message;
use super::sys;
use crate::error::{Context, Result};
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Mechanism, ReadBack};
use nix::libc;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

const STEP: &str = "supervise";

/// What init has said, with what came along.
pub(crate) type Heard = Vec<(Message, Vec<OwnedFd>)>;

/// One jail.
pub(crate) struct Jail {
    /// Its init.
    pub(crate) pid: libc::pid_t,
    pub(crate) pidfd: OwnedFd,
    /// What init says, and by its end that init is gone.
    pub(crate) messages: OwnedFd,
    /// Where the command started, as the host calls it.
    pub(crate) directory: PathBuf,
    pub(crate) held_by: Box<dyn HeldBy>,
}

/// What keeps its processes together, which each mechanism has of its own. Where nothing else is said it is the kernel: they
/// are in a pid namespace, and end with init.
pub(crate) trait HeldBy {
    fn mechanism(&self) -> Mechanism;

    /// What may be claimed of it.
    fn capabilities(&self, state: &ReadBack, plan: &Plan) -> Capabilities;

    /// Changes what a call asks for, where the command may.
    fn change_attributes(&self, question: &libc::seccomp_notif, waits: &dyn Fn() -> bool) -> nix::Result<()>;

    /// What the kernel asks the supervisor about.
    fn topics(&self, plan: &Plan) -> Topics {
        Topics::of(plan)
    }

    /// Has everything in it ended. That it is dead already is what is wanted.
    fn end(&self, jail: &Jail) {
        drop(sys::signal_process(jail.pidfd.as_fd(), libc::SIGKILL));
    }

    /// Waits until nothing in it is alive any more but its init, who would be waited for otherwise.
    fn wait_until_gone(&self, _: &Jail, _heard: &mut Heard) -> Result<()> {
        Ok(())
    }

    /// Whether the `/proc` that the supervisor looks through, and the file system of the private directories, are the
    /// host's.
    fn is_among_others(&self) -> bool {
        false
    }

    /// Takes init's exit status, and with it the processor time of all that were waited for. All others in the jail are
    /// dead by then, which is seen to here unless the kernel does.
    fn bury(&self, jail: &Jail) -> Result<(libc::c_int, Duration)> {
        sys::wait_with_usage(jail.pid).context(STEP, "wait for init")
    }
}

impl Jail {
    /// See [`HeldBy::end`].
    pub(crate) fn end(&self) {
        self.held_by.end(self);
    }

    /// See [`HeldBy::wait_until_gone`].
    pub(crate) fn wait_until_gone(&self, heard: &mut Heard) -> Result<()> {
        self.held_by.wait_until_gone(self, heard)
    }

    /// See [`HeldBy::bury`].
    pub(crate) fn bury(&self) -> Result<(libc::c_int, Duration)> {
        self.held_by.bury(self)
    }

    /// Its init, as the `/proc` calls it that the supervisor looks through.
    pub(crate) fn init_in_proc(&self) -> u32 {
        if self.held_by.is_among_others() { self.pid.unsigned_abs() } else { 1 }
    }
}
