//! Step 5: one `clone3` with every namespace at once.

use super::cgroup::Group;
use super::git::Guards;
use super::identity::Identity;
use super::init::{self, Task};
use super::layers::Layer;
use super::message::{self, Outside};
use super::pty::Terminal;
use super::relay::Relays;
use super::sys::{self, Forked};
use crate::error::{Context, Hint, NO_USER_NAMESPACES, Result};
use nix::libc;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

const STEP: &str = "namespaces";

/// All but that of the network, which init makes beside other work.
const ALL: [(i32, Option<Layer>); 6] = [
    (libc::CLONE_NEWNS, None),
    (libc::CLONE_NEWUSER, Some(Layer::UserNamespace)),
    (libc::CLONE_NEWPID, Some(Layer::PidNamespace)),
    (libc::CLONE_NEWIPC, Some(Layer::IpcNamespace)),
    (libc::CLONE_NEWUTS, Some(Layer::UtsNamespace)),
    (libc::CLONE_NEWCGROUP, Some(Layer::CgroupNamespace)),
];

/// The new process, as the supervisor knows it.
pub(crate) struct Jail {
    pub(crate) pid: libc::pid_t,
    pub(crate) pidfd: OwnedFd,
    /// What init says, and by its end that init is gone.
    pub(crate) messages: OwnedFd,
    /// Where the command started.
    pub(crate) directory: PathBuf,
    /// Knows what the jail must not have changed in the end.
    pub(crate) guards: Guards,
    /// See [`View`](super::view::View).
    pub(crate) can_be_uncovered: bool,
    /// Whoever holds the identity's claim keeps it from being used twice.
    pub(crate) _identity: Identity,
    /// The caller's terminal, where the command gets one of its own.
    pub(crate) terminal: Option<Terminal>,
    /// The last output is copied when this is finished or dropped, and then the run is over.
    pub(crate) relays: Relays,
    /// The memory of the whole tree is in it. Removed last, when nobody is left who was born there.
    pub(crate) group: Option<Group>,
}

/// Makes the new process, which never returns from here: it becomes the jail's init.
pub(crate) fn enter(task: Task<'_>) -> Result<Jail> {
    let (ours, theirs) = message::channel()?;
    let flags = ALL.into_iter().filter(|(_, layer)| !layer.is_some_and(Layer::is_off));
    let flags = flags.fold(0, |all, (flag, _)| all | flag);
    match sys::clone_process(flags).context(STEP, "clone3 with new namespaces").hint(NO_USER_NAMESPACES)? {
        Forked::Child => {
            drop(ours);
            init::main(task, theirs)
        }
        Forked::Parent { pid, pidfd } => {
            let pidfd =
                pidfd.ok_or_else(|| std::io::Error::other("no pidfd came back")).context(STEP, "clone3")?;
            // Looked up while init is busy.
            let outside = Outside::look()?;
            message::send(ours.as_fd(), &outside, &[]).context(STEP, "tell init what is outside")?;
            let can_be_uncovered = task.view.can_be_uncovered;
            let Task { identity, mut relays, terminal, guards, directory, .. } = task;
            // As long as we held the pipes too, the copiers would wait for us.
            relays.let_go();
            Ok(Jail {
                pid,
                pidfd,
                messages: ours,
                directory,
                guards,
                can_be_uncovered,
                _identity: identity,
                terminal,
                relays,
                group: None,
            })
        }
    }
}
