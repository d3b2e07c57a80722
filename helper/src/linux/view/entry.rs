//! What is mounted at one path.

use crate::error::{Context, Hint, Result};
use crate::linux::owner_map::OwnerMaps;
use crate::linux::resolve::{judged, open_real, replaced};
use crate::linux::sys;
use agentkit_protocol::{Commit, Failure, FailureKind};
use nix::libc;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

const STEP: &str = "view";
/// Of a directory: to list it, and to enter it.
const OTHERS_READ: u32 = libc::S_IROTH | libc::S_IXOTH;
const OUT_OF_REACH: &str = "the launcher must be able to reach it, and where root launches so must the user that root becomes: \
    let everybody through the directories above it, or start it as an ordinary user who can reach it";

/// What can be done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The host's: read and execute.
    ReadOnly,
    /// The same for a work dir, whose owner the jail's user stands for, so that it can read what the owner can.
    Readable,
    /// The host's: whatever its mount and modes allow.
    Writable,
    /// The same, but the host's is only changed by a commit.
    Overlaid(Commit),
    /// Nothing, but for what lies in it and has an entry of its own.
    Hidden,
    /// An empty directory of the jail's own.
    Private,
    /// What its surroundings show, but nothing can be changed. Needs no source: whatever stands there by now is sealed.
    Sealed,
    /// What its surroundings allow; as a mount of its own it can be neither renamed nor removed.
    Pin,
}

impl Access {
    /// Whether it promises that something cannot be done.
    pub(crate) fn is_protection(self) -> bool {
        matches!(self, Access::ReadOnly | Access::Readable | Access::Sealed | Access::Hidden)
    }

    /// Whether the command can write the host's files, or believes so.
    pub(crate) fn is_writable(self) -> bool {
        matches!(self, Access::Writable | Access::Overlaid(_))
    }

    /// Whether it needs something of the host.
    pub(crate) fn has_source(self) -> bool {
        self == Access::ReadOnly || self.is_owned()
    }

    /// Whether the command acts as the owner of what is there.
    pub(crate) fn is_owned(self) -> bool {
        self == Access::Readable || self.is_writable()
    }
}

/// What stands there on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    /// Anything that is no directory.
    File,
    /// A link itself, not what it leads to.
    Link,
}

/// A path, outside and inside, without links on it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) access: Access,
    /// Whether it is the directory of an installation, which is shown for a program's sake.
    pub(crate) is_installation: bool,
    /// Whether nothing is mounted in it; only looked at for an installation.
    pub(crate) is_one_mount: bool,
    /// Device and inode that it had when its path was judged.
    identity: (u64, u64),
    opened: Option<OwnedFd>,
    is_mapped: bool,
    /// A second one for whoever looks at it from outside while root's jail is in the first.
    outside: Option<OwnedFd>,
    /// Where its mount stands outside too.
    #[cfg(any(feature = "bubblewrap", without_namespaces))]
    stands_at: Option<PathBuf>,
}

impl Entry {
    pub(crate) fn new(path: &Path, kind: Kind, access: Access, identity: (u64, u64)) -> Self {
        Entry {
            path: path.to_path_buf(),
            kind,
            access,
            is_installation: false,
            is_one_mount: false,
            identity,
            opened: None,
            is_mapped: false,
            outside: None,
            #[cfg(any(feature = "bubblewrap", without_namespaces))]
            stands_at: None,
        }
    }

    /// Inside a directory that is shown anyway.
    pub(super) fn pin(path: &Path, kind: Kind) -> Self {
        Entry::new(path, kind, Access::Pin, (0, 0))
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Device and inode of what was judged.
    #[cfg(feature = "bubblewrap")]
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// See [`super::View::descriptors`].
    pub(super) fn descriptors(&self, guarded: bool) -> u64 {
        let opened = [self.access.has_source(), guarded && self.is_guarded()];
        opened.into_iter().fold(0, |sum: u64, is_opened| sum.saturating_add(u64::from(is_opened)))
    }

    /// See [`super::View::open_as_root`]. What is only to be read can do without what this takes: then the jail's user finds
    /// it by its name, as an ordinary launcher's does, or reads what others may.
    pub(crate) fn open_as_root(&mut self, owners: &mut OwnerMaps, guarded: bool) -> Result<()> {
        if !self.access.has_source() {
            return Ok(());
        }
        let mount = match self.open() {
            Err(failure) if failure.errno == Some(libc::EPERM) && self.is_found_by_name() => return Ok(()),
            opened => opened?,
        };
        if self.access.is_owned() {
            match owners.map(&mount, &self.path) {
                Err(failure)
                    if !self.access.is_writable() && is_refusal(&failure) && others_may_read(&mount) => {}
                mapped => mapped.map(|()| self.is_mapped = true)?,
            }
        }
        self.opened = Some(mount);
        if guarded && self.is_guarded() {
            let outside = self.open()?;
            owners.map(&outside, &self.path)?;
            self.outside = Some(outside);
        }
        Ok(())
    }

    /// Whether it is of use without having been opened by root.
    fn is_found_by_name(&self) -> bool {
        match self.access {
            Access::Readable => self.look_up().is_ok_and(|place| others_may_read(&place)),
            access => !access.is_writable(),
        }
    }

    /// Whether root has opened it ahead.
    #[cfg(with_namespaces)]
    pub(crate) fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    /// Whether the jail's user stands for its owner.
    #[cfg(without_namespaces)]
    pub(crate) fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// Whether this process can read the directory, by its name.
    #[cfg(any(feature = "bubblewrap", without_namespaces))]
    pub(crate) fn can_be_read(&self) -> bool {
        std::fs::read_dir(&self.path).is_ok()
    }

    /// Whether the command can make things in it by which programs outside are misled.
    fn is_guarded(&self) -> bool {
        self.is_dir() && self.access == Access::Writable
    }

    /// What has to be guarded: its path, device and inode, and root's way to it.
    pub(crate) fn guarded(&mut self) -> Option<(&Path, (u64, u64), Option<OwnedFd>)> {
        if !self.is_guarded() {
            return None;
        }
        let outside = self.outside.take();
        Some((&self.path, self.identity, outside))
    }

    /// A detached mount of it, with nothing more allowed than on the host.
    pub(crate) fn mount(&mut self) -> Result<OwnedFd> {
        self.opened.take().map_or_else(|| self.open(), Ok)
    }

    /// Mounts what was opened on `place`, whose path is given, in the mount namespace of this process.
    #[cfg(any(feature = "bubblewrap", without_namespaces))]
    pub(crate) fn mount_on(&mut self, place: impl AsFd, path: PathBuf) -> Result<()> {
        sys::attach_mount(self.mount()?.as_fd(), place.as_fd())
            .context(STEP, format_args!("move_mount {:?} to {path:?}", self.path))?;
        self.stands_at = Some(path);
        Ok(())
    }

    /// The path where that was done.
    #[cfg(any(feature = "bubblewrap", without_namespaces))]
    pub(crate) fn stands_at(&self) -> Option<&Path> {
        self.stands_at.as_deref()
    }

    /// What stands there, if it is what was judged.
    #[cfg(without_namespaces)]
    pub(crate) fn place(&self) -> Result<OwnedFd> {
        let place = self.look_up()?;
        self.check_identity(&place)?;
        Ok(place)
    }

    fn look_up(&self) -> Result<OwnedFd> {
        let opened = judged(&self.path, open_real(&self.path))?;
        opened
            .context(STEP, format_args!("open {:?}", self.path))
            // Whoever owns a directory on the way can close it at any time.
            .map_err(|failure| match failure.errno {
                Some(libc::EACCES) => Failure { kind: FailureKind::Policy, ..failure },
                _ => failure,
            })
            .hint(OUT_OF_REACH)
    }

    fn open(&self) -> Result<OwnedFd> {
        // By its name once more: an ordinary launcher may only copy a mount in the jail's mount namespace, to which no
        // descriptor from before belongs. Without links, the name stands for no other place than the one that was judged.
        let place = self.look_up()?;
        let mount = sys::clone_mount(place.as_fd(), c"")
            .context(STEP, format_args!("open_tree {:?}", self.path))
            .hint("the kernel must be 5.12 or newer; root needs CAP_SYS_ADMIN for this, or starts it as an ordinary user")?;
        self.check_identity(&mount)?;
        sys::restrict_mount(mount.as_fd(), restrictions(!self.access.is_writable()))
            .context(STEP, format_args!("mount_setattr {:?}", self.path))?;
        Ok(mount)
    }

    /// Whoever put another one in its place since it was judged gets nothing.
    fn check_identity(&self, mount: &OwnedFd) -> Result<()> {
        let stat = nix::sys::stat::fstat(mount)
            .map_err(io::Error::from)
            .context(STEP, format_args!("stat {:?}", self.path))?;
        if self.identity == (stat.st_dev, stat.st_ino) {
            return Ok(());
        }
        Err(replaced(&self.path))
    }
}

/// Whether the host does not let this launcher map owners, and no lack of something that is there at other times.
fn is_refusal(failure: &Failure) -> bool {
    let refusals = [libc::EPERM, libc::EINVAL, libc::ENOSYS, libc::ENOSPC, libc::EOPNOTSUPP, libc::EACCES];
    failure.errno.is_some_and(|errno| refusals.contains(&errno))
}

fn others_may_read(directory: &OwnedFd) -> bool {
    nix::sys::stat::fstat(directory).is_ok_and(|stat| stat.st_mode & OTHERS_READ == OTHERS_READ)
}

/// The `MOUNT_ATTR_*` of whatever a policy adds to the view.
pub(crate) fn restrictions(read_only: bool) -> u64 {
    let closed = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    if read_only { closed | libc::MOUNT_ATTR_RDONLY } else { closed }
}
