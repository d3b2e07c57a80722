//! Covers the names that were found, in the jail: as mounts they can be neither changed nor moved nor removed.

use super::inside::reach;
use super::{Guard, STEP};
use crate::error::{Context, Result};
use crate::linux::namespaces::root::front;
use crate::linux::sys;
use nix::fcntl::{OFlag, open, openat};
use nix::libc;
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

impl Guard {
    /// Mounts what is at each path onto itself, in the root that is being built.
    pub(super) fn cover(&self) -> Result<()> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let directory = open(front(&self.path), flags, Mode::empty())
            .map_err(io::Error::from)
            .context(STEP, format_args!("open {:?}", self.path))?;
        let mut last_read_only: Option<&Path> = None;
        for (path, read_only) in &self.known.covers {
            // What is below a read-only one needs none of its own.
            if last_read_only.is_some_and(|above| path.starts_with(above)) {
                continue;
            }
            if *read_only {
                last_read_only = Some(path);
            }
            match cover(directory.as_fd(), path, *read_only) {
                // Somebody on the host has removed it since, or the view does not show it.
                Err(error) if is_out_of_reach(&error) => {}
                result => result.context(STEP, format_args!("cover {path:?}"))?,
            }
        }
        Ok(())
    }
}

fn cover(directory: BorrowedFd, path: &Path, read_only: bool) -> io::Result<()> {
    let (trail, name) = reach(directory, path)?;
    let place = openat(
        trail.here(),
        name.as_c_str(),
        OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let mount = sys::clone_mount(place.as_fd(), c"")?;
    if read_only {
        sys::restrict_mount(mount.as_fd(), libc::MOUNT_ATTR_RDONLY)?;
    }
    sys::attach_mount(mount.as_fd(), place.as_fd())
}

fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}
