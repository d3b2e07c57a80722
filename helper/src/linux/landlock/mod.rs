//! The mechanism `landlock`, for hosts without user namespaces: Landlock (see landlock(7)), a stricter system-call filter,
//! and for a root launcher an unused uid.
//!
//! ```text
//! supervisor ──> init (outside of the command's domain: reaps, and ends whatever is left)
//!                  └─> the command (limits, domain, filter)
//! ```
//!
//! There is one file a step. The command sees the host's own paths, and what it may not open is still there: see
//! [`derive`] for what that leaves.

mod capabilities;
mod confine;
mod end;
mod grants;
mod init;
mod private;
mod refuse;
mod tree;

pub(crate) use capabilities::derive;
pub(crate) use tree::Tree;

use crate::error::{Context, Hint, Result, failure};
use crate::linux::attributes::Root;
use crate::linux::identity::Identity;
use crate::linux::jail::{HeldBy, Jail};
use crate::linux::message::{self, Outside};
use crate::linux::mount_table::keep_apart;
use crate::linux::owner_map::OwnerMaps;
use crate::linux::sys::{self, Forked};
use crate::linux::task::{Entrance, Task};
use crate::linux::view::{Access, View};
use agentkit_protocol::FailureKind;
use confine::Confinement;
use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use private::Private;
use std::io;

const STEP: &str = "landlock";
const NO_LANDLOCK: &str = "Landlock takes Linux 5.13 or newer, `landlock` among the values of the boot parameter `lsm=`, and a \
    container whose system-call filter lets landlock_create_ruleset through";

/// Its version, which says what this kernel can forbid.
fn version() -> Result<u32> {
    let version = sys::landlock_version();
    let version = version.context(STEP, "landlock_create_ruleset for its version").hint(NO_LANDLOCK)?;
    u32::try_from(version).map_err(io::Error::other).context(STEP, "the version of Landlock")
}

/// What takes root: a directory whose owner the command is to stand for is mounted, in place, in a mount namespace of the
/// launcher's own, as one that belongs to the jail's user.
pub(crate) fn open_as_root(view: &mut View, identity: &Identity, guarded: bool) -> Result<()> {
    version()?;
    if !view.entries.iter().any(|entry| entry.access.is_owned()) {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(io::Error::from)
        .context(STEP, "unshare CLONE_NEWNS to map the owner of a directory")
        .hint("root needs CAP_SYS_ADMIN for this: start it as the owner of the directory")?;
    keep_apart()?;
    let mut owners = OwnerMaps::new(identity);
    let mut owned: Vec<_> = view.entries.iter_mut().filter(|entry| entry.access.is_owned()).collect();
    // All of them first: what is shown through one such mount cannot be mapped once more.
    owned.iter_mut().try_for_each(|entry| entry.open_as_root(&mut owners, guarded))?;
    owned.into_iter().try_for_each(|entry| {
        let place = entry.place()?;
        entry.mount_on(place, entry.path.clone())
    })
}

/// Makes the private directories and the jail's init, which never returns from here.
pub(crate) fn enter(task: &Task, entrance: &mut Entrance) -> Result<Jail> {
    let version = version()?;
    let outside = Outside::look()?;
    refuse::what_takes_mounts(task, &entrance.view, &outside)?;
    refuse_unmapped_owners(task, &entrance.view)?;
    let private = Private::make(task.plan, &entrance.view)?;
    // Whoever is left without an init comes to us.
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(io::Error::from)
        .context(STEP, "prctl PR_SET_CHILD_SUBREAPER")?;
    end::keep_signals_inside(version)?;
    let (ours, theirs) = message::channel()?;
    match sys::clone_process(0).or_else(|_| sys::fork()).context(STEP, "fork")? {
        Forked::Child => {
            drop(ours);
            let confinement = Confinement::new(version, task, &private, &outside);
            init::main(task, entrance, &private, confinement, &theirs)
        }
        Forked::Parent { pid, pidfd } => {
            let pidfd = match pidfd {
                Some(pidfd) => pidfd,
                None => sys::open_pidfd(pid).context(STEP, "pidfd_open")?,
            };
            let directory = private.directory_of(task).to_path_buf();
            let roots = roots(&entrance.view, &private)?;
            let held_by = HeldBy::Init(Tree::new(private, roots, version));
            Ok(Jail { pid, pidfd, messages: ours, directory, held_by })
        }
    }
}

/// All that the command may write.
fn roots(view: &View, private: &Private) -> Result<Vec<Root>> {
    let entries = view.entries.iter().filter(|entry| entry.access == Access::Writable && entry.is_dir());
    let own = [&private.home, &private.temporary, &private.work];
    let places = entries.map(|entry| Ok((entry.path.clone(), entry.place()?)));
    let own = own.into_iter().map(|path| {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let place = open(path, flags, Mode::empty()).map_err(io::Error::from);
        Ok((path.clone(), place.context(STEP, format_args!("open {path:?}"))?))
    });
    places.chain(own).map(|place| place.map(|(path, directory)| Root { path, directory })).collect()
}

/// Root's other uid cannot use what is its owner's, and nothing of the user's ever changes hands.
fn refuse_unmapped_owners(task: &Task, view: &View) -> Result<()> {
    let mut owned = view.entries.iter().filter(|entry| entry.access.is_owned());
    match owned.find(|entry| task.identity.gives_up_root() && entry.stands_at().is_none()) {
        None => Ok(()),
        Some(entry) => Err(failure(
            FailureKind::Host,
            STEP,
            format_args!(
                "{:?} can only be given to the user that root becomes by a mount that maps its owner",
                entry.path
            ),
        ))
        .hint(
            "start it as the owner of the directory, use a scratch work dir, or name this mechanism (--mechanism landlock): \
             it then makes such a mount before root is given up, where CAP_SYS_ADMIN and user namespaces allow it",
        ),
    }
}
