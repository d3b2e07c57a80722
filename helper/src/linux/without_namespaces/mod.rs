//! What the mechanisms without namespaces share: the command sees the host's own paths and process numbers, and an init that
//! is a process like any other keeps its tree together.
//!
//! ```text
//! supervisor ──> init (reaps, and ends whatever is left)
//!                  └─> the command (limits, the mechanism's wall, filter)
//! ```
//!
//! There is one file a step; what tells the mechanisms apart is their [`Wall`].

mod claims;
mod confine;
mod end;
mod init;
mod private;
mod refuse;
mod tree;
mod wall;

pub(crate) use claims::{cpu, memory, polled_disk, process_limit, while_watched};
pub(crate) use end::{KNOWS_SIGNALS, SIGNALS};
pub(crate) use private::Private;
pub(crate) use refuse::{HINT, cannot, what_takes_namespaces};
pub(crate) use tree::Tree;
pub(crate) use wall::Wall;

use crate::error::{Context, Result};
use crate::linux::follow::Root;
use crate::linux::identity::Identity;
use crate::linux::jail::Jail;
use crate::linux::message::{self, Outside};
use crate::linux::mount_table::keep_apart;
use crate::linux::owner_map::OwnerMaps;
use crate::linux::sys;
use crate::linux::task::{Entrance, Task};
use crate::linux::view::{Access, Entry, View};
use agentkit_protocol::{Failure, FailureKind, Mechanism};
use confine::Confinement;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use std::io;

const STEP: &str = "init";

/// What takes root: a directory whose owner the command is to stand for is mounted, in place, in a mount namespace of the
/// launcher's own, as one that belongs to the jail's user. One that is only to be read, and that others may read, does
/// without where that cannot be had.
pub(crate) fn open_as_root(
    view: &mut View,
    identity: &Identity,
    guarded: bool,
    mechanism: Mechanism,
) -> Result<()> {
    let is_owned = |entry: &&mut Entry| entry.access.is_owned();
    let mut owned: Vec<_> = view.entries.iter_mut().filter(is_owned).collect();
    // What has to be had is the first to say why it cannot.
    owned.sort_by_key(|entry| !entry.access.is_writable());
    let Some(first) = owned.first() else { return Ok(()) };
    if let Err(failure) = own_mounts() {
        let refusal = || refuse::cannot_be_given(first, mechanism, &failure.message);
        let can_do_without = !first.access.is_writable() && failure.errno == Some(libc::EPERM);
        return if can_do_without { Ok(()) } else { Err(as_refusal(&failure, refusal)) };
    }
    let mut owners = OwnerMaps::new(identity);
    // All of them first: what is shown through one such mount cannot be mapped once more.
    for entry in &mut owned {
        let opened = entry.open_as_root(&mut owners, guarded);
        opened.map_err(|failure| {
            as_refusal(&failure, || refuse::cannot_be_given(entry, mechanism, &failure.message))
        })?;
    }
    owned.into_iter().filter(|entry| entry.is_mapped()).try_for_each(|entry| {
        let place = entry.place()?;
        entry.mount_on(place, entry.path.clone())
    })
}

fn own_mounts() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(io::Error::from).context(STEP, "unshare CLONE_NEWNS")?;
    keep_apart()
}

/// With the errno, by which something that was used up is known.
fn as_refusal(failure: &Failure, refusal: impl FnOnce() -> Failure) -> Failure {
    match failure.kind {
        FailureKind::Host => Failure { errno: failure.errno, ..refusal() },
        _ => failure.clone(),
    }
}

/// Makes the private directories and the jail's init, which never returns from here.
pub(crate) fn enter(
    wall: Box<dyn Wall>,
    task: &Task,
    entrance: &mut Entrance,
    outside: &Outside,
) -> Result<Jail> {
    refuse::unmapped_owners(task, &entrance.view, wall.mechanism())?;
    refuse::another_proc()?;
    umask(Mode::empty());
    let private = Private::make(task.plan, &entrance.view)?;
    // Whoever is left without an init comes to us.
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(io::Error::from)
        .context(STEP, "prctl PR_SET_CHILD_SUBREAPER")?;
    if wall.version() >= KNOWS_SIGNALS {
        entrance.relays.arm()?;
    }
    end::keep_signals_inside(wall.version())?;
    let (ours, theirs) = message::channel()?;
    match sys::fork_with_pidfd().context(STEP, "fork")? {
        None => {
            drop(ours);
            let confinement = Confinement::new(&*wall, task, &entrance.view, &private, outside);
            init::main(task, entrance, &private, confinement, &theirs)
        }
        Some((pid, pidfd)) => {
            let directory = private.directory_of(task).to_path_buf();
            let roots = roots(&entrance.view, &private)?;
            let held_by = Box::new(Tree::new(wall, private, roots));
            Ok(Jail { pid, pidfd, messages: ours, directory, held_by })
        }
    }
}

/// All that the command may write.
fn roots(view: &View, private: &Private) -> Result<Vec<Root>> {
    let entries = view.entries.iter().filter(|entry| entry.access == Access::Writable);
    let own = [&private.home, &private.temporary, &private.work];
    let places = entries.map(|entry| Ok((entry.path.clone(), entry.place()?)));
    let own = own.into_iter().map(|path| {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let place = open(path, flags, Mode::empty()).map_err(io::Error::from);
        Ok((path.clone(), place.context(STEP, format_args!("open {path:?}"))?))
    });
    places.chain(own).map(|place| place.map(|(path, place)| Root { path, place: Some(place) })).collect()
}
