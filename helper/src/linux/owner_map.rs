//! The owners of writable host directories, when root launches.

use super::identity::Identity;
use super::sys::{self, Forked};
use crate::error::{Context, Hint, NO_USER_NAMESPACES, NONE_FOR_ROOT, Result};
use nix::libc;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

const STEP: &str = "namespaces";

/// One map for each owner.
pub(crate) struct OwnerMaps<'a> {
    identity: &'a Identity,
    known: BTreeMap<(u32, u32), OwnerMapping>,
}

impl<'a> OwnerMaps<'a> {
    pub(crate) fn new(identity: &'a Identity) -> Self {
        OwnerMaps { identity, known: BTreeMap::new() }
    }

    /// Shows a directory's owner as the jail's user (`MOUNT_ATTR_IDMAP`, Linux 5.12, by file system): the jail's user can
    /// write, new files belong to the owner, and nothing on disk changes hands.
    pub(crate) fn map(&mut self, mount: &OwnedFd, path: &Path) -> Result<()> {
        let stat = nix::sys::stat::fstat(mount)
            .map_err(io::Error::from)
            .context(STEP, format_args!("stat {path:?}"))?;
        let mapping = match self.known.entry((stat.st_uid, stat.st_gid)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(OwnerMapping::new(stat.st_uid, stat.st_gid, self.identity)?),
        };
        sys::map_ids_of_mount(mount.as_fd(), mapping.namespace.as_fd())
            .context(STEP, format_args!("map the owner of {path:?}"))
            .hint("its file system, or one that is mounted in it, cannot map ids (an overlay root of a container cannot): use a scratch work dir, or a directory on ext4, xfs, btrfs or tmpfs")
    }
}

/// A user namespace that exists only for its id maps, kept by a descriptor.
struct OwnerMapping {
    namespace: File,
}

impl OwnerMapping {
    fn new(owner: u32, group: u32, identity: &Identity) -> Result<Self> {
        let (parked, release) = std::io::pipe().context(STEP, "pipe")?;
        match sys::clone_process(libc::CLONE_NEWUSER)
            .context(STEP, "clone3 with a user namespace for id maps")
            .hint(&format!("{NO_USER_NAMESPACES}. {NONE_FOR_ROOT}"))?
        {
            Forked::Child => {
                drop(release);
                // Until the parent has what it needs, or is dead.
                drop(io::Read::read(&mut &parked, &mut [0]));
                std::process::exit(0)
            }
            Forked::Parent { pid, .. } => {
                let namespace = Self::write_maps(pid, owner, group, identity);
                drop(release);
                sys::wait_with_usage(pid).context(STEP, "wait for the id map process")?;
                namespace
            }
        }
    }

    fn write_maps(pid: libc::pid_t, owner: u32, group: u32, identity: &Identity) -> Result<Self> {
        let write = |file: &str, text: String| {
            std::fs::write(format!("/proc/{pid}/{file}"), &text)
                .context(STEP, format_args!("write {text:?} to {file}"))
        };
        write("uid_map", format!("{owner} {} 1", identity.uid))?;
        write("gid_map", format!("{group} {} 1", identity.gid))?;
        let namespace =
            File::open(format!("/proc/{pid}/ns/user")).context(STEP, "open the user namespace")?;
        Ok(OwnerMapping { namespace })
    }
}
