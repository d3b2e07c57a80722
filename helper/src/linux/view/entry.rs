//! One host directory or file, under its own path.

use super::STEP;
use crate::error::{Context, Hint, Result, policy};
use crate::linux::identity::Identity;
use crate::linux::owner_map::map_owner;
use crate::linux::sys;
use agentkit_protocol::Commit;
use nix::libc;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What can be done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read and execute.
    ReadOnly,
    /// Whatever the host's mount and modes allow.
    Writable,
    /// The same, but the host's is only changed by a commit.
    Overlaid(Commit),
}

/// What is mounted at a path.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) is_dir: bool,
    pub(crate) access: Access,
    /// Device and inode that it had when its path was judged.
    identity: (u64, u64),
    opened: Option<OwnedFd>,
}

impl Entry {
    pub(crate) fn new(path: &Path, is_dir: bool, access: Access, identity: (u64, u64)) -> Self {
        Entry { path: path.to_path_buf(), is_dir, access, identity, opened: None }
    }

    /// See [`super::View::open_as_root`].
    pub(super) fn open_as_root(&mut self, identity: &Identity) -> Result<()> {
        let mount = self.open()?;
        if self.access != Access::ReadOnly {
            map_owner(&mount, &self.path, identity)?;
        }
        self.opened = Some(mount);
        Ok(())
    }

    /// A detached mount of it, with nothing more allowed than on the host.
    pub(crate) fn mount(&mut self) -> Result<OwnedFd> {
        self.opened.take().map_or_else(|| self.open(), Ok)
    }

    fn open(&self) -> Result<OwnedFd> {
        let path = CString::new(self.path.as_os_str().as_bytes())
            .map_err(|_| policy(format_args!("{:?} holds a zero byte", self.path)))?;
        let mount = sys::clone_mount(&path)
            .context(STEP, format_args!("open_tree {:?}", self.path))
            .hint("the launcher must be able to reach it, and the kernel must be 5.12 or newer")?;
        self.check_identity(&mount)?;
        let closed = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        let attributes = match self.access {
            Access::ReadOnly => closed | libc::MOUNT_ATTR_RDONLY,
            Access::Writable | Access::Overlaid(_) => closed,
        };
        sys::restrict_mount(mount.as_fd(), attributes)
            .context(STEP, format_args!("mount_setattr {:?}", self.path))?;
        Ok(mount)
    }

    /// The path was judged by its name; whoever swapped it since then gets nothing.
    fn check_identity(&self, mount: &OwnedFd) -> Result<()> {
        let stat = nix::sys::stat::fstat(mount)
            .map_err(io::Error::from)
            .context(STEP, format_args!("stat {:?}", self.path))?;
        if self.identity == (stat.st_dev, stat.st_ino) {
            return Ok(());
        }
        Err(policy(format_args!("{:?} was replaced while the jail was being set up", self.path)))
    }
}
