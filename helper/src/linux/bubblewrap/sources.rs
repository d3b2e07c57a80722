//! What a root launcher shows, opened while it still is root: bubblewrap looks everything up by its name, as the user that
//! root becomes, who can neither traverse root's directories nor write as the owner of a work dir. So it gets names for it.

use super::STEP;
use crate::error::{Context, Hint, Result, failure};
use crate::linux::identity::Identity;
use crate::linux::mount_table::keep_apart;
use crate::linux::resolve::open_real;
use crate::linux::view::{Entry, View};
use agentkit_protocol::FailureKind;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::mkdir;
use std::io;
use std::path::Path;

/// Directories of every system (see hier(7)) of which one is covered, in a mount namespace of the launcher's own.
const PLACES: [&str; 3] = ["/mnt", "/media", "/srv"];

/// Opens it, and mounts it where that user can reach it.
pub(crate) fn open_as_root(view: &mut View, identity: &Identity, guarded: bool) -> Result<()> {
    view.open_as_root(identity, guarded)?;
    if !view.entries.iter().any(Entry::is_open) {
        return Ok(());
    }
    let is_free = |place: &&str| {
        Path::new(place).is_dir() && !view.entries.iter().any(|entry| entry.path.starts_with(place))
    };
    let none = || failure(FailureKind::Host, STEP, format_args!("none of {PLACES:?} is free to be covered"));
    let place = Path::new(PLACES.into_iter().find(is_free).ok_or_else(none)?);
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(io::Error::from)
        .context(STEP, "unshare CLONE_NEWNS to show what root opened")
        .hint("root needs CAP_SYS_ADMIN for this: start it as an ordinary user")?;
    keep_apart()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), place, Some("tmpfs"), flags, Some("mode=0755"))
        .map_err(io::Error::from)
        .context(STEP, format_args!("mount tmpfs at {place:?}"))?;
    for (number, entry) in view.entries.iter_mut().filter(|entry| entry.is_open()).enumerate() {
        let target = place.join(number.to_string());
        let made = match entry.is_dir() {
            true => mkdir(&target, Mode::S_IRWXU),
            false => mknod(&target, SFlag::S_IFREG, Mode::S_IRUSR, 0),
        };
        made.map_err(io::Error::from).context(STEP, format_args!("make {target:?}"))?;
        let stand = open_real(&target).context(STEP, format_args!("open {target:?}"))?;
        entry.mount_on(stand, target)?;
    }
    Ok(())
}
