//! A jail, as the supervisor knows it.

use super::asked::Topics;
#[cfg(without_namespaces)]
use super::attributes;
#[cfg(feature = "bubblewrap")]
use super::bubblewrap;
#[cfg(with_namespaces)]
use super::enclosed::{self, Gap};
#[cfg(with_namespaces)]
use super::modes;
use super::sys;
#[cfg(without_namespaces)]
use super::without_namespaces::Tree;
use crate::error::{Context, Result};
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Mechanism, ReadBack};
use nix::libc;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

const STEP: &str = "supervise";

/// One jail.
pub(crate) struct Jail {
    /// Its init.
    pub(crate) pid: libc::pid_t,
    pub(crate) pidfd: OwnedFd,
    /// What init says, and by its end that init is gone.
    pub(crate) messages: OwnedFd,
    /// Where the command started, as the host calls it.
    pub(crate) directory: PathBuf,
    pub(crate) held_by: HeldBy,
}

/// What keeps its processes together.
pub(crate) enum HeldBy {
    /// The kernel: they end with init.
    #[cfg(feature = "namespaces")]
    Namespace {
        /// What keeps its view from being held.
        gap: Option<Gap>,
    },
    /// The kernel too, but it was bubblewrap that asked for it.
    #[cfg(feature = "bubblewrap")]
    Bubblewrap {
        monitor: bubblewrap::Monitor,
        /// The same.
        gap: Option<Gap>,
    },
    /// Init, who ends them one by one.
    #[cfg(without_namespaces)]
    Init(Tree),
}

impl Jail {
    pub(crate) fn mechanism(&self) -> Mechanism {
        match &self.held_by {
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { .. } => Mechanism::Namespaces,
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { .. } => Mechanism::Bubblewrap,
            #[cfg(without_namespaces)]
            HeldBy::Init(tree) => tree.wall().mechanism(),
        }
    }

    /// What may be claimed of it.
    pub(crate) fn capabilities(&self, state: &ReadBack, plan: &Plan) -> Capabilities {
        match &self.held_by {
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { gap } => enclosed::derive(self.mechanism(), state, plan, *gap),
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { gap, .. } => enclosed::derive(self.mechanism(), state, plan, *gap),
            #[cfg(without_namespaces)]
            HeldBy::Init(tree) => tree.wall().derive(state, plan),
        }
    }

    /// What the kernel asks the supervisor about.
    pub(crate) fn topics(&self, plan: &Plan) -> Topics {
        match &self.held_by {
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { .. } => Topics::of(plan),
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { .. } => Topics::of(plan),
            #[cfg(without_namespaces)]
            HeldBy::Init(tree) => tree.wall().topics(plan),
        }
    }

    /// Changes what a call asks for, where the command may.
    pub(crate) fn change_attributes(
        &self,
        question: &libc::seccomp_notif,
        waits: impl Fn() -> bool,
    ) -> nix::Result<()> {
        match &self.held_by {
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { .. } => modes::change(question, waits),
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { .. } => modes::change(question, waits),
            #[cfg(without_namespaces)]
            HeldBy::Init(tree) => attributes::change(question, tree.roots(), waits),
        }
    }

    /// Has everything in it ended. That it is dead already is what is wanted.
    pub(crate) fn end(&self) {
        match &self.held_by {
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { .. } => drop(sys::signal_process(self.pidfd.as_fd(), libc::SIGKILL)),
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { .. } => drop(sys::signal_process(self.pidfd.as_fd(), libc::SIGKILL)),
            #[cfg(without_namespaces)]
            HeldBy::Init(tree) => tree.end(self),
        }
    }

    /// Waits until nothing in it is alive any more but its init, who would be waited for otherwise.
    pub(crate) fn wait_until_gone(&self) -> Result<()> {
        match &self.held_by {
            // The kernel makes init wait for all others.
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { .. } => Ok(()),
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { .. } => Ok(()),
            #[cfg(without_namespaces)]
            HeldBy::Init(tree) => tree.wait_until_gone(self),
        }
    }

    /// Its init, as the `/proc` calls it that the supervisor looks through.
    pub(crate) fn init_in_proc(&self) -> u32 {
        match &self.held_by {
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { .. } => 1,
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { .. } => 1,
            #[cfg(without_namespaces)]
            HeldBy::Init(_) => self.pid.unsigned_abs(),
        }
    }

    /// Whether that `/proc`, and the file system of the private directories, are the host's.
    pub(crate) fn is_among_others(&self) -> bool {
        match &self.held_by {
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { .. } => false,
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { .. } => false,
            #[cfg(without_namespaces)]
            HeldBy::Init(_) => true,
        }
    }

    /// Takes init's exit status, and with it the processor time of all that were waited for. All others in the jail are
    /// dead by then, which is seen to here unless the kernel does.
    pub(crate) fn bury(&self) -> Result<(libc::c_int, Duration)> {
        match &self.held_by {
            #[cfg(feature = "namespaces")]
            HeldBy::Namespace { .. } => sys::wait_with_usage(self.pid).context(STEP, "wait for init"),
            #[cfg(feature = "bubblewrap")]
            HeldBy::Bubblewrap { monitor, .. } => monitor.bury(&self.pidfd),
            #[cfg(without_namespaces)]
            HeldBy::Init(tree) => tree.bury(self),
        }
    }
}
