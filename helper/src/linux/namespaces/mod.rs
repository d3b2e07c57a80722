//! The mechanism `namespaces`, one file a step. Step 5: one `clone3` with every namespace at once.

mod decoys;
pub(super) mod detached;
mod init;
mod installations;
mod kernel_files;
mod mounts;
mod network;
pub(super) mod root;

use crate::error::{Context, Hint, NO_USER_NAMESPACES, NONE_FOR_ROOT, Result};
use crate::linux::closed;
use crate::linux::enclosed::{self, Gap};
use crate::linux::follow::Root;
use crate::linux::jail::{HeldBy, Jail};
use crate::linux::layers::Layer;
use crate::linux::message::{self, Outside};
use crate::linux::modes;
use crate::linux::sys::{self, Forked};
use crate::linux::task::{Entrance, Task};
use crate::linux::view::Entry;
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Mechanism, ReadBack};
use nix::libc;
use std::os::fd::AsFd;

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

/// Makes the new process, which never returns from here: it becomes the jail's init.
pub(crate) fn enter(task: &Task<'_>, entrance: &mut Entrance) -> Result<Jail> {
    if task.identity.gives_up_root() {
        // What root could not open ahead, for want of CAP_SYS_ADMIN.
        closed::leave_out(task, &mut entrance.view, Entry::is_open)?;
    }
    let (ours, theirs) = message::channel()?;
    let flags = ALL.into_iter().filter(|(_, layer)| !layer.is_some_and(Layer::is_off));
    let flags = flags.fold(0, |all, (flag, _)| all | flag);
    let hint = match task.identity.gives_up_root() {
        true => &format!("{NO_USER_NAMESPACES}. {NONE_FOR_ROOT}"),
        false => NO_USER_NAMESPACES,
    };
    match sys::clone_process(flags).context(STEP, "clone3 with new namespaces").hint(hint)? {
        Forked::Child => {
            drop(ours);
            init::main(task, entrance, theirs)
        }
        Forked::Parent { pid, pidfd } => {
            let pidfd =
                pidfd.ok_or_else(|| std::io::Error::other("no pidfd came back")).context(STEP, "clone3")?;
            // Looked up while init is busy.
            let outside = Outside::look()?;
            message::send(ours.as_fd(), &outside, &[]).context(STEP, "tell init what is outside")?;
            Ok(Jail {
                pid,
                pidfd,
                messages: ours,
                directory: task.directory.clone(),
                held_by: Box::new(OwnNamespaces {
                    roots: modes::roots(&entrance.view),
                    gap: entrance.view.can_be_uncovered.then_some(Gap::Uncoverable),
                }),
            })
        }
    }
}

struct OwnNamespaces {
    /// Where the command may write what is the host's.
    roots: Vec<Root>,
    /// What keeps its view from being held.
    gap: Option<Gap>,
}

impl HeldBy for OwnNamespaces {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Namespaces
    }

    fn capabilities(&self, state: &ReadBack, plan: &Plan) -> Capabilities {
        enclosed::derive(self.mechanism(), state, plan, self.gap)
    }

    fn change_attributes(&self, question: &libc::seccomp_notif, waits: &dyn Fn() -> bool) -> nix::Result<()> {
        modes::change(question, &self.roots, waits)
    }
}
